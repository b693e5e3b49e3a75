"""The catalog of operations: the table of each operation, and the lookup of a variant by its name."""

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
    """Return the names of all operations, the folders of kernels/ops."""
    return tuple(sorted(x.parent.name for x in (Path(__file__).parent / "ops").glob("*/problem.py")))


@functools.cache
def problem_type(op: str) -> type[Problem]:
    """Return the problem class of an operation. Raises UsageError for an unknown operation."""
    if op not in operations():
        raise UsageError(f"no operation {op!r}; choose from {', '.join(operations())}")
    names = vars(importlib.import_module(f"{suite.PREFIX}kernels.ops.{op}")).values()
    return next(x for x in names if isinstance(x, type) and issubclass(x, Problem) and getattr(x, "op", None) == op)


def _tables(op: str, kernels: str = "*") -> Iterator[ModuleType]:
    """Yield the modules that hold an operation's variants, each imported only when it is reached.

    These are variants.py, and one module per kind of kernel with special imports, such as cuda_variants.py."""
    problem_type(op)
    yield importlib.import_module(f"{suite.PREFIX}kernels.ops.{op}.variants")
    for path in sorted((Path(__file__).parent / "ops" / op).glob(f"{kernels}_variants.py")):
        yield importlib.import_module(f"{suite.PREFIX}kernels.ops.{op}.{path.stem}")


@functools.cache
def variants(op: str) -> tuple[Variant[Any], ...]:
    """Return all variants of an operation, the rows of its table."""
    return tuple(row for table in _tables(op) for row in table.VARIANTS)


@functools.cache
def rows(op: str, kernels: str) -> tuple[Variant[Any], ...]:
    """Return an operation's variants that are written for the kind of device `kernels`."""
    return tuple(row for table in _tables(op, kernels) for row in table.VARIANTS if row.device == kernels)


def bounding(op: str, kernels: str) -> str:
    """Return the name of an operation's ceiling variant on a kind of device. Raises UsageError if none."""
    for row in rows(op, kernels):
        if CEILING in row.roles:
            return row.name
    raise UsageError(f"{op}: no variant for {kernels} serves as a ceiling")


def families(table: ModuleType) -> Mapping[str, Callable[[str], Variant[Any]]]:
    """Return a table's functions that build parametrized variants, by family (the word before the colon)."""
    by_word: Mapping[str, Callable[[str], Variant[Any]]] = getattr(table, "FAMILIES", {})
    return by_word


class NoSuchVariant(UsageError):
    """A requested variant name that is neither in the operation's table nor a user's kernel."""


TIMES = r"(.+)\*(\d+)(~\w+)?"


def is_user(op: str, name: str) -> bool:
    """Return whether `name` has the form of a user's kernel and is in no table of the operation."""
    single = re.fullmatch(TIMES, name)
    inner = single[1] if single else name
    family = inner.partition(":")[0]
    matches = (family in families(table) or inner in {row.name for row in table.VARIANTS} for table in _tables(op))
    return ":" in inner and not any(matches)


@functools.cache
def find(op: str, name: str) -> Variant[Any]:
    """Return a variant by name. Raises UsageError.

    A name is a table row's; `family:parameter`; `row*20`, twenty calls as one launch, and `row*20~b`, its control run;
    or a user's `module:NAME`, `file.py:NAME` or `file.c:NAME`."""
    if times := re.fullmatch(TIMES, name):
        from kernels import repeated  # imported here, as below, because most names do not need it

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
        raise UsageError(f"--variant {name}: name a function of the file, e.g. {name}:product")
    raise NoSuchVariant(f"--variant {name}: {choice(name, (x.name for x in variants(op)))}")
