"""Every operation keeps to the words of docs/glossary.md, and answers for every output by its name."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.catalog import operations, problem_type
from kernels.errors import UsageError
from kernels.problem import DIRECTIONS, Problem, direction

PAGE = (Path(__file__).parents[2] / "docs/glossary.md").read_text("utf-8")
CONV = {"n": 1, "c": 4, "h": 7, "w": 6, "k": 6}
NUMBERS = {"working_set": 1024, "vector": 256, "size": 4096, "density": 0.5, "rows": 8, "chain": 2, "steps": 99}


def words(section: str) -> list[str]:
    """The first column of a section's table."""
    return re.findall(r"^\| `(\w+)` \|", PAGE.partition(f"## {section}")[2].partition("\n## ")[0], re.M)


def every(op: str) -> Iterator[Problem]:
    """A small problem for each combination of an operation's words that there is."""
    kind = problem_type(op)
    values = []
    for field in dataclasses.fields(kind):
        if field.metadata["choices"]:
            values.append(field.metadata["choices"])
        elif field.default is dataclasses.MISSING:
            values.append((8 if op in ("pooling", "norm") else NUMBERS.get(field.name, 4),))
        else:
            values.append((field.default, 1.0) if field.name == "beta" else (field.default,))
    for chosen in itertools.product(*values):
        try:
            yield kind(*chosen)
        except UsageError:
            continue


def test_every_operand_is_in_the_glossary_and_no_other() -> None:
    used = {x.name for op in operations() for problem in every(op) for x in problem.operands()}
    assert len(words("Operands")) == len(set(words("Operands")))
    assert used == set(words("Operands"))


def test_every_direction_is_in_the_glossary() -> None:
    assert tuple(words("Directions")) == DIRECTIONS


@pytest.mark.parametrize("op", operations())
def test_every_output_has_an_answer_and_a_bound(op: str) -> None:
    problems = list(every(op))
    assert problems
    for problem in problems[::7]:
        x = problem.fill(np.random.default_rng(1))
        want = problem.reference(x)
        bound = problem.bound(x, want, 2.0**-24)
        shapes = {operand.name: operand.shape for operand in problem.outputs}
        assert {name: array.shape for name, array in want.items()} == shapes, problem.name
        assert {name: np.broadcast_shapes(array.shape, shapes[name]) for name, array in bound.items()} == shapes
        assert all(array.dtype == np.float64 for array in want.values()), problem.name


def test_a_direction_of_its_own_is_refused() -> None:
    with pytest.raises(AssertionError, match="sideways"):
        direction("where", "forward", "sideways")


IMPOSSIBLE: list[tuple[str, dict[str, Any], str]] = [
    ("activation", {"count": 8, "kind": "gelu"}, "--kind gelu"),
    ("activation", {"count": 8, "phase": "sideways"}, "--phase sideways: choose from forward, dgrad"),
    ("biasact", {"rows": 1, "cols": 1, "terms": 2, "phase": "dgrad"}, "--terms 2"),
    ("cast", {"values": 8, "convert": "f16-f32"}, "--convert f16-f32"),
    ("chain", {"size": 6}, "--size 6: must be a multiple of 4"),
    ("chain", {"size": 4, "links": 65}, "--links 65: must be at most 64"),
    ("chain", {"size": 4, "links": 3, "elsewhere": 4}, "--elsewhere 4: must not exceed --links 3"),
    ("conv", CONV | {"groups": 3}, "--groups 3"),
    ("conv", CONV | {"r": 9}, "--r 9"),
    ("conv", CONV | {"layout": "nchw16c"}, "--layout nchw16c"),
    ("conv", CONV | {"stride": 0}, "--stride 0"),
    ("dropout", {"units": 8, "rate": 1.0}, "--rate 1"),
    ("exchange", {"how": "load", "spread": 33}, "--spread 33: load allows 0 to 32"),
    ("exchange", {"how": "shuffle", "spread": 2}, "--spread 2: shuffle allows 1 to 1"),
    ("exchange", {"how": "add-shared", "spread": 0}, "--spread 0: add-shared allows 1 to 1024"),
    ("exchange", {"how": "add-global", "spread": 2049, "processors": 2}, "--spread 2049: add-global allows 1 to 2048"),
    (
        "exchange",
        {"how": "add-shared", "steps": 1 << 14},
        "--steps 16384: times 1024 threads per word must stay below 16777216",
    ),
    *(("fft", {name: value}, f"--{name} ") for name, value in (("batch", 0), ("h", 1), ("w", 1), ("direction", "c2c"))),
    ("norm", {"images": 1, "maps": 1, "size": 1, "method": "lrn", "mode": "frozen"}, "--mode frozen"),
    *(
        ("optimizer", {"rule": "adam", "tensors": 1, "size": 4} | fields, says)
        for fields, says in (({"mu": 1.0}, "--mu 1.0"), ({"rho": 1.5}, "--rho 1.5"), ({"size": 0}, "--size 0"))
    ),
    ("pooling", {"images": 1, "channels": 1, "size": 8, "window": 4}, "--window 4"),
    ("pooling", {"images": 1, "channels": 1, "size": 2, "window": 3}, "--window 3"),
    (
        "pooling",
        {"images": 1, "channels": 1, "size": 8, "pool": "avg", "relu": "yes"},
        "--relu yes: .* does not commute",
    ),
    ("spmm", {"m": 1, "n": 1, "k": 1, "density": -0.1}, r"--density -0\.1: must be 0 or more"),
    *(
        ("update", {"m": 4, "n": 4, "k": 4} | fields, f"--{name} ")
        for name, fields in (("mu", {"mu": 1.0}), ("lr", {"decay": 2.0}), ("lr", {"lr": -1.0}), ("k", {"k": 0}))
    ),
]


@pytest.mark.parametrize(("op", "fields", "says"), IMPOSSIBLE)
def test_impossible_problems_are_refused_by_the_option(op: str, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=f"^{says}"):
        problem_type(op)(**fields)
