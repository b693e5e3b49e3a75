"""Rows of a table: a gather against a one-hot product, a step of a few rows against a step of all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from kernels.ops.gather.problem import Gather
from micro.command.line import main
from micro.planning.benchmark import Benchmark, Question, Request, Useful
from micro.planning.contest import Case, Contest

WORDS, WIDTH, BATCH = (64, 1000), 256, 128  # rows: number of classes, size of a small vocabulary
# Vocabulary of a language model: its one-hot GEMM takes thousands of times a gather, and a minute to measure.
MORE_WORDS = (*WORDS, 10_000)
VOCABULARY = (10_000, 256, 4096)  # of a language model: words of a step
TABLE, FULL_TABLE = (200_000, 50, 12_800), (1_200_000, 50, 12_800)  # bigrams of 32 texts of 400 words
# Every row once: images of 32×32, three channels; short rows.
EPOCH = ((10_000, 3072, 10_000), (200_000, 64, 200_000))
RULES = ("sgd", "adagrad", "adam")


def _sizes(asked: Request, default: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return rows, width and batch from the command line, by default the question's."""
    rows, width, batch = default
    return asked.named("rows", (rows,))[0], asked.named("width", (width,))[0], asked.named("batch", (batch,))[0]


def lookup(asked: Request) -> list[Contest]:
    """Return contests of a gather against the GEMM with a one-hot matrix, per number of table rows."""
    question, contests = "gather rows, or multiply a one-hot matrix by the table?", []
    for many in asked.named("rows", MORE_WORDS if asked.every else WORDS):
        _, width, batch = _sizes(asked, (many, WIDTH, min(BATCH, many)))
        problem = Gather(many, width, batch)
        contests.append(asked.between(f"lookup/{problem.name}", question, problem, asked.chosen()))
    return contests


def _case(asked: Request, problem: Gather, variant: str) -> Case:
    """Return a case on uniform data unless --data is named, so that Adagrad's state is not negative."""
    setting = asked.settings[0]
    return asked.case(problem, variant, setting if "data" in asked.given else replace(setting, data="uniform"))


def step(asked: Request) -> list[Contest]:
    """Return contests, per rule, of an optimizer step of the batch's rows against a step of all rows."""
    size = _sizes(asked, FULL_TABLE if "full" in asked.flags else TABLE)
    names, contests = asked.chosen("step"), list[Contest]()
    pairs = tuple((i, i + 1) for i in range(0, len(names), 2)) if "variant" not in asked.given else ()
    for rule in asked.named("rule", RULES):
        problem, question = Gather(*size, "step", rule), "update the rows of the batch, or the complete table?"
        if rule == "adam":
            contests += _moments(asked, problem, names)
            continue
        cases = tuple(_case(asked, problem, name) for name in names)
        contests.append(Contest(f"step/{problem.name}", question, "variant", cases, pairs))
    return contests


def _moments(asked: Request, problem: Gather, names: tuple[str, ...]) -> Iterator[Contest]:
    """Yield the contest of Adam on the batch's rows against all, whose moments decay, by the kernels that have it."""
    question = "update the rows of the batch, or the complete table, whose moments decay in all rows?"
    every = [_case(asked, replace(problem, does=does), name) for does in ("step", "dense") for name in names]
    cases = tuple(case for case in every if not case.skip)
    if len(cases) > 1:
        yield Contest(f"step/{problem.name}", question, "work: differs (rows)", cases)


def scatter(asked: Request) -> list[Contest]:
    """Return contests of an embedding's gradient, for words of a text, which repeat, and for distinct rows."""
    question, contests = "add gradients of rows by index, by a library, or by a one-hot product?", []
    for order in asked.named("order", ("text", "scattered")):
        rows, width, batch = _sizes(asked, VOCABULARY)
        problem = Gather(rows, width, batch, "scatter", order=order)
        contests.append(asked.between(f"scatter/{problem.name}", question, problem, asked.chosen("scatter")))
    return contests


def shuffle(asked: Request) -> list[Contest]:
    """Return contests of gathering an epoch's rows in random order against their order in memory."""
    question, contests = "what do rows in random order cost?", []
    for size in dict.fromkeys(_sizes(asked, epoch) for epoch in EPOCH):
        problems = [Gather(*size, order=order) for order in ("block", "scattered")]
        for name in asked.chosen("shuffle"):
            contest = f"shuffle/{problems[0].name}/variant:{name}"
            contests.append(asked.along(contest, question, "order", problems, name))
    return contests


BENCHMARK = Benchmark(
    Gather,
    "Lookup and update of rows of a table. Default question: --lookup.",
    sweep={"rows": (10_000,), "width": (WIDTH,), "batch": (BATCH,)},
    questions={
        "lookup": Question(
            "a gather, or the product with a one-hot matrix? (about 15 s)", lookup, seconds=15.0, all="longer tables"
        ),
        "step": Question(
            "an optimizer's step on a few rows, or on the complete table? (about 20 s)",
            step,
            seconds=20.0,
            full="the complete table",
        ),
        "scatter": Question("how to add up an embedding's gradient? (about 20 s)", scatter, seconds=20.0),
        "shuffle": Question(
            "how much slower is an epoch with rows in random order? (about 20 s)", shuffle, seconds=20.0
        ),
    },
    useful=(
        *map(Useful, ("--lookup", "--step", "--scatter")),
        Useful("--lookup", 160, 10.0),
        Useful("--step", 170, 10.0),
    ),
    small="--rows 16 --width 8 --batch 4",
    default="lookup",
    sweeping=("does", "order", "rule"),
)


if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "gather"))
