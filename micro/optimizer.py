"""Optimizers: the cost of each rule's traffic, and the gain of a step over all tensors at once."""

from __future__ import annotations

import sys
from dataclasses import replace

from kernels.ops.optimizer.problem import NAMES, Optimizer
from micro.command.line import main
from micro.findings.ratios import ratios
from micro.planning.benchmark import Benchmark, Question, Request, Useful
from micro.planning.contest import Contest

SIZES, MORE_SIZES = (1 << 20,), (1 << 16, 1 << 20, 1 << 24)  # parameters
LEAST = 8  # bytes of a parameter and its gradient: sgd's, the least of all rules
STREAMED_RULES = ("copy", "sgd", "momentum", "adam")  # 8 to 28 bytes an element: others differ in arithmetic alone
COMPARED = ("sgd", "momentum", "adam", "norm")
NETWORKS = ((160, 256), (160, 16384))  # tensors as a deep network has, small and middling: 40 k and 2.6 M parameters
MORE_NETWORKS = ((16, 256), *NETWORKS, (16, 163840), (1024, 1024))
MANY_RULES, MORE_RULES = ("sgd", "adam"), ("sgd", "momentum", "rmsprop", "adam")


def _rows(asked: Request, default: tuple[str, ...]) -> tuple[str, ...]:
    return asked.variants if "variant" in asked.given else default


def _sizes(asked: Request) -> list[tuple[int, int]]:
    """Return pairs of the number of tensors and their size."""
    if {"size", "tensors"} & asked.given:
        return [(t, n) for t in asked.axes["tensors"] for n in asked.axes["size"]]
    return [(1, n) for n in (MORE_SIZES if "all" in asked.flags else SIZES)]


def traffic(
    asked: Request, tensors: int, size: int, variant: str, rules: tuple[str, ...] = NAMES, where: str = ""
) -> Contest:
    """Return the contest of these rules by one kernel, against the plainest: time against bytes."""
    wanted = asked.axes["rule"] if "rule" in asked.given else rules
    first = "sgd" if "sgd" in wanted else wanted[0]
    named = (first, *(rule for rule in wanted if rule != first))
    cases = tuple(asked.case(Optimizer(rule, tensors, size), variant) for rule in named)
    question = f"does an optimizer's step take the time of its traffic{where}?"
    name = f"traffic/tensors:{tensors}/size:{size}/{variant}"
    return Contest(name, question, "work: differs (rule)", cases)


def ways(asked: Request, rule: str, tensors: int, size: int) -> Contest:
    """Return the contest of one rule by each implementation."""
    problem = Optimizer(rule, tensors, size)
    cases = tuple(asked.case(problem, name) for name in _rows(asked, asked.rows()))
    question = f"what do passes of their own cost {rule}, and who makes it in one?"
    return Contest(f"ways/{problem.name}", question, "variant", cases)


def gain(asked: Request, tensors: int, size: int, variant: str) -> Contest:
    """Return the contest of momentum against momentum of unit gain, at rates with equal steps."""
    plain = Optimizer("momentum", tensors, size)
    unit = replace(plain, rule="unit", lr=plain.lr / (1 - plain.mu))
    cases = tuple(asked.case(problem, variant) for problem in (plain, unit))
    return Contest(
        f"gain/{plain.name}/{variant}", "does momentum of unit gain cost anything?", "work: differs (rule)", cases
    )


def rules(asked: Request) -> list[Contest]:
    """Return contests of the rules' traffic, and of their implementations."""
    contests = []
    wanted = asked.axes["rule"] if {"rule"} & asked.given else NAMES if "all" in asked.flags else COMPARED
    for tensors, size in _sizes(asked):
        contests += [traffic(asked, tensors, size, name) for name in asked.rows("traffic")]
        contests += [ways(asked, rule, tensors, size) for rule in wanted if rule != "copy"]
        contests += [gain(asked, tensors, size, name) for name in asked.rows("traffic")]
    if asked.device.undivided and not {"size", "tensors"} & asked.given:  # the sizes above lie in its caches
        streamed, where = asked.memory // LEAST, ", from a GPU's memory"
        contests += [traffic(asked, 1, streamed, name, STREAMED_RULES, where) for name in asked.rows("traffic")]
        contests += [ways(asked, rule, 1, streamed) for rule in wanted if rule == "adam"]
    return contests


def at_once(asked: Request, rule: str, tensors: int, size: int) -> Contest:
    """Return the contest of all tensors in one call against a call each, by each way of calling."""
    problem = Optimizer(rule, tensors, size)
    cases = tuple(asked.case(problem, name) for name in _rows(asked, asked.rows("together")))
    places = {case.variant: i for i, case in enumerate(cases)}
    pairs = [(0, i) for i in range(1, len(cases))]
    for joint, many in (("numpy", "numpy-each"), ("torch-fused", "torch-loop"), ("torch-foreach", "torch-loop")):
        if joint in places and many in places:
            pairs.append((places[joint], places[many]))
    question = "what does a step save that takes all tensors at once?"
    return Contest(f"tensors/{problem.name}", question, "variant", cases, tuple(pairs))


def together(asked: Request) -> list[Contest]:
    """Return contests of one call for all tensors against one for each."""
    every = "all" in asked.flags
    wanted = asked.axes["rule"] if "rule" in asked.given else MORE_RULES if every else MANY_RULES
    named = {"size", "tensors"} & asked.given
    sizes = _sizes(asked) if named else list(MORE_NETWORKS if every else NETWORKS)
    return [at_once(asked, rule, many, size) for rule in wanted if rule != "copy" for many, size in sizes]


BENCHMARK = Benchmark(
    Optimizer,
    "An optimizer's step over gradients that are given. Without another question: --rules.",
    sweep={"rule": ("sgd",), "tensors": (1,), "size": (1 << 20,)},
    questions={
        "rules": Question(
            "does each rule take the time of its traffic, and whose implementation does? (about 30 s)",
            rules,
            ratios,
            all="every rule, and more sizes",
        ),
        "together": Question(
            "what does a step save that takes all tensors at once? (about 30 s)",
            together,
            ratios,
            all="every rule and implementation",
        ),
    },
    useful=(Useful("--rules"), Useful("--together"), Useful("--rules", 120, 20.0), Useful("--together", 130, 15.0)),
    small="--tensors 2 --size 64",
    default="rules",
    sweeping=("lr", "mu", "rho", "decay", "eps", "limit"),
    data="uniform",
)


if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "optimizer"))
