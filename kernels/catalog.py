"""What there is to measure: the operations, the table of each, and a variant by its name."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from kernels.errors import UsageError
from kernels.problem import Problem
from kernels.variant import Variant


def operations() -> tuple[str, ...]:
    """The operations there are: the folders of kernels/ops."""
    return tuple(sorted(x.parent.name for x in (Path(__file__).parent / "ops").glob("*/problem.py")))


@functools.cache
def problem_type(op: str) -> type[Problem]:
    """The problem class of an operation."""
    if op not in operations():
        raise UsageError(f"no operation {op!r}; there are: {', '.join(operations())}")
    found: type[Problem] = importlib.import_module(f"kernels.ops.{op}").PROBLEM
    return found


def _tables(op: str) -> Iterator[ModuleType]:
    """The modules of an operation's rows; the one with a GPU's bindings is imported only when it is reached."""
    problem_type(op)
    yield importlib.import_module(f"kernels.ops.{op}.variants")
    if importlib.util.find_spec(f"kernels.ops.{op}.cuda_variants"):
        yield importlib.import_module(f"kernels.ops.{op}.cuda_variants")


@functools.cache
def variants(op: str) -> tuple[Variant[Any], ...]:
    """The table of an operation."""
    return tuple(row for table in _tables(op) for row in table.VARIANTS)


@functools.cache
def find(op: str, name: str) -> Variant[Any]:
    """A variant by name: a row; `family:parameter`; `row*20`, twenty calls as one launch, `row*20~b` its twin;
    or the user's own, `module:NAME` or `file.py:NAME`. Raises UsageError."""
    if times := re.fullmatch(r"(.+)\*(\d+)(~\w+)?", name):
        from kernels import repeated  # here and below: most names need neither, and a command starts without them

        return repeated.repeated(find(op, times[1]), int(times[2]), name)
    family, _, parameter = name.partition(":")
    for table in _tables(op):
        for row in table.VARIANTS:
            if row.name == name:
                found: Variant[Any] = row
                return found
        if family in table.FAMILIES:
            made: Variant[Any] = table.FAMILIES[family](parameter)
            return made
    if parameter:
        from kernels import users

        return users.load(name)
    if name.endswith(".py"):
        raise UsageError(f"--variant {name}: name a function in it, as {name}:product")
    raise UsageError(f"--variant {name}: there are {', '.join(x.name for x in variants(op))}")
