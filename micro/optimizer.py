"""Optimizers: the cost of each rule's traffic, and the gain of a step over all tensors at once."""

from __future__ import annotations

import sys
from dataclasses import replace

from kernels.ops.optimizer.problem import NAMES, Optimizer
from micro.command.line import main
from micro.planning.benchmark import Benchmark, Question, Request, Useful
from micro.planning.contest import Contest

SIZES, MORE_SIZES = (1 << 20,), (1 << 16, 1 << 20, 1 << 24)  # parameters
LEAST = 8  # bytes per parameter: weight and gradient, as for sgd, the least of all rules
STREAMED_RULES = ("copy", "sgd", "momentum", "adam")  # 8 to 28 bytes an element: others differ in arithmetic alone
COMPARED = ("sgd", "momentum", "adam", "norm")
NETWORKS = ((160, 256), (160, 16384))  # tensors as a deep network has, small and middling: 40 k and 2.6 M parameters
MORE_NETWORKS = ((16, 256), *NETWORKS, (16, 163840), (1024, 1024))
MANY_RULES, MORE_RULES = ("sgd", "adam"), ("sgd", "momentum", "rmsprop", "adam")


def _sizes(asked: Request) -> list[tuple[int, int]]:
    """Return (number of tensors, parameters per tensor) pairs."""
    if {"size", "tensors"} & asked.given:
        return [(t, n) for t in asked.axes["tensors"] for n in asked.axes["size"]]
    return [(1, n) for n in (MORE_SIZES if asked.every else SIZES)]


def traffic(
    asked: Request, tensors: int, size: int, variant: str, rules: tuple[str, ...] = NAMES, where: str = ""
) -> Contest:
    """Return the contest of rules against sgd, run by one variant, to compare time with traffic."""
    wanted = asked.named("rule", rules)
    first = "sgd" if "sgd" in wanted else wanted[0]
    problems = [Optimizer(rule, tensors, size) for rule in dict.fromkeys((first, *wanted))]
    question = f"does an optimizer's step take only the time of its memory traffic{where}?"
    name = f"traffic/tensors:{tensors}/size:{size}/{variant}"
    return asked.along(name, question, "work: differs (rule)", problems, variant)


def ways(asked: Request, rule: str, tensors: int, size: int) -> Contest:
    """Return the contest of all implementations of a rule."""
    problem = Optimizer(rule, tensors, size)
    question = f"what do separate passes cost {rule}, and which variant needs only one?"
    return asked.between(f"ways/{problem.name}", question, problem, asked.chosen())


def gain(asked: Request, tensors: int, size: int, variant: str) -> Contest:
    """Return the contest of unit-gain momentum against momentum, at rates that give equal steps."""
    plain = Optimizer("momentum", tensors, size)
    unit = replace(plain, rule="unit", lr=plain.lr / (1 - plain.mu))
    question = "does momentum of unit gain cost anything?"
    return asked.along(f"gain/{plain.name}/{variant}", question, "work: differs (rule)", (plain, unit), variant)


def rules(asked: Request) -> list[Contest]:
    """Return the contests of `--rules`: rules per variant, implementations per rule, unit gain."""
    contests = []
    wanted = asked.named("rule", NAMES if asked.every else COMPARED)
    for tensors, size in _sizes(asked):
        contests += [traffic(asked, tensors, size, name) for name in asked.rows("traffic")]
        contests += [ways(asked, rule, tensors, size) for rule in wanted if rule != "copy"]
        contests += [gain(asked, tensors, size, name) for name in asked.rows("traffic")]
    if asked.device.undivided and not {"size", "tensors"} & asked.given:  # the sizes above lie in its caches
        streamed, where = asked.memory // LEAST, ", in GPU memory"
        contests += [traffic(asked, 1, streamed, name, STREAMED_RULES, where) for name in asked.rows("traffic")]
        contests += [ways(asked, rule, 1, streamed) for rule in wanted if rule == "adam"]
    return contests


def at_once(asked: Request, rule: str, tensors: int, size: int) -> Contest:
    """Return the contest of implementations that step all tensors in one call or one tensor per call."""
    problem = Optimizer(rule, tensors, size)
    names = asked.chosen("together")
    places = {name: i for i, name in enumerate(names)}
    pairs = [(0, i) for i in range(1, len(names))]
    for joint, many in (("numpy", "numpy-each"), ("torch-fused", "torch-loop"), ("torch-foreach", "torch-loop")):
        if joint in places and many in places:
            pairs.append((places[joint], places[many]))
    question = "how much does one step over all tensors save?"
    return asked.between(f"tensors/{problem.name}", question, problem, names, pairs=pairs)


def together(asked: Request) -> list[Contest]:
    """Return the contests of `--together`: a call for all tensors against a call per tensor."""
    wanted = asked.named("rule", MORE_RULES if asked.every else MANY_RULES)
    named = {"size", "tensors"} & asked.given
    sizes = _sizes(asked) if named else list(MORE_NETWORKS if asked.every else NETWORKS)
    return [at_once(asked, rule, many, size) for rule in wanted if rule != "copy" for many, size in sizes]


BENCHMARK = Benchmark(
    Optimizer,
    "An optimizer's step with given gradients. Default question: --rules.",
    sweep={"rule": ("sgd",), "tensors": (1,), "size": (1 << 20,)},
    questions={
        "rules": Question(
            "which rules and implementations take only the time of their memory traffic? (about 30 s)",
            rules,
            all="all rules, and more sizes",
        ),
        "together": Question(
            "how much does one step over all tensors save? (about 30 s)", together, all="every rule and implementation"
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
