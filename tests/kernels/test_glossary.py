"""Every operation keeps to the words of docs/glossary.md, and answers for every output by its name."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kernels.catalog import operations, problem_type
from kernels.errors import UsageError
from kernels.ops.activation import Activation
from kernels.problem import DIRECTIONS, Problem, direction

PAGE = (Path(__file__).parents[2] / "docs/glossary.md").read_text("utf-8")
NUMBERS = {"working_set": 1024, "vector": 256, "size": 4096, "density": 0.5, "rows": 8, "chain": 2}


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


def test_a_word_that_is_no_direction_is_refused() -> None:
    with pytest.raises(UsageError, match="there are forward, dgrad"):
        Activation(8, "tanh", "sideways")


def test_a_direction_of_its_own_is_refused() -> None:
    with pytest.raises(AssertionError, match="sideways"):
        direction("where", "forward", "sideways")
