"""What there is to measure: the operations, the table of each, and a variant by its name."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from kernels import suite
from kernels.errors import UsageError, choice
from kernels.problem import Problem
from kernels.variant import CEILING, Variant


def operations() -> tuple[str, ...]:
    """The operations there are: the folders of kernels/ops."""
    return tuple(sorted(x.parent.name for x in (Path(__file__).parent / "ops").glob("*/problem.py")))


@functools.cache
def problem_type(op: str) -> type[Problem]:
    """The problem class of an operation."""
    if op not in operations():
        raise UsageError(f"no operation {op!r}; there are: {', '.join(operations())}")
    problem_class: type[Problem] = importlib.import_module(f"{suite.PREFIX}kernels.ops.{op}").PROBLEM
    return problem_class


def _tables(op: str, kernels: str = "*") -> Iterator[ModuleType]:
    """The modules of an operation's rows: variants.py, and one for each kind of kernels that needs imports of its own,
    as cuda_variants.py; imported only when it is reached."""
    problem_type(op)
    yield importlib.import_module(f"{suite.PREFIX}kernels.ops.{op}.variants")
    for path in sorted((Path(__file__).parent / "ops" / op).glob(f"{kernels}_variants.py")):
        yield importlib.import_module(f"{suite.PREFIX}kernels.ops.{op}.{path.stem}")


@functools.cache
def variants(op: str) -> tuple[Variant[Any], ...]:
    """The table of an operation."""
    return tuple(row for table in _tables(op) for row in table.VARIANTS)


@functools.cache
def rows(op: str, kernels: str) -> tuple[Variant[Any], ...]:
    """Those of an operation's table that are written for one kind of device."""
    return tuple(row for table in _tables(op, kernels) for row in table.VARIANTS if row.device == kernels)


def bounding(op: str, kernels: str) -> str:
    """The row of an operation that nothing on such a device can beat. Raises UsageError where there is none."""
    for row in rows(op, kernels):
        if CEILING in row.roles:
            return row.name
    raise UsageError(f"{op}: no row for {kernels} is a ceiling")


def families(table: ModuleType) -> Mapping[str, Callable[[str], Variant[Any]]]:
    """Return what makes the variants of a table whose names have a parameter, by the word before the colon."""
    by_word: Mapping[str, Callable[[str], Variant[Any]]] = getattr(table, "FAMILIES", {})
    return by_word


class NoSuchVariant(UsageError):
    """A word that is no row of a table, nor a kernel of the user's own."""


TIMES = r"(.+)\*(\d+)(~\w+)?"


def is_user(op: str, name: str) -> bool:
    """Whether a variant's name is that of a user's own kernel, and not of the tables."""
    single = re.fullmatch(TIMES, name)
    inner = single[1] if single else name
    family = inner.partition(":")[0]
    matches = (family in families(table) or inner in {row.name for row in table.VARIANTS} for table in _tables(op))
    return ":" in inner and not any(matches)


@functools.cache
def find(op: str, name: str) -> Variant[Any]:
    """A variant by name: a row; `family:parameter`; `row*20`, twenty calls as one launch, `row*20~b` its twin;
    or the user's own, `module:NAME`, `file.py:NAME` or `file.c:NAME`. Raises UsageError."""
    if times := re.fullmatch(TIMES, name):
        from kernels import repeated  # here and below: most names need neither, and a command starts without them

        return repeated.repeated(find(op, times[1]), int(times[2]), name)
    family, _, parameter = name.partition(":")
    for table in _tables(op):
        for row in table.VARIANTS:
            if row.name == name:
                variant: Variant[Any] = row
                return variant
        if family in families(table):
            return families(table)[family](parameter)
    if parameter:
        from kernels import users

        return users.load(name)
    if name.endswith((".py", ".c", ".so")):
        raise UsageError(f"--variant {name}: name a function in it, as {name}:product")
    raise NoSuchVariant(f"--variant {name}: {choice(name, (x.name for x in variants(op)))}")
