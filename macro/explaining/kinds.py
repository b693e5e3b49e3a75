"""Kinds of work in a step, classified by names of functions, kernels and operations; see kinds.toml.

Framework tracers and older run files may use synonyms of a kind's name. Patterns match base names of libraries, never
paths: a library below a folder named python3.11 is no interpreter.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from kernels import ops

FLOP, BYTES, FAULTS, CALLS = "FLOP", "bytes", "page faults", "calls"  # units of work


@dataclass(frozen=True)
class Kind:
    """A kind of work, such as gemm, copy or dispatch: a column of the breakdown."""

    name: str
    unit: str | None = None  # of the work; None: the work is not counted
    cause: str | None = None  # explains a difference in words, where work and rate do not explain it
    words: Sequence[str] = ()  # synonyms of the name
    inclusive: bool = False  # an operation of this kind includes the products and copies inside it
    renamed: bool = False  # a symbol of this kind takes the kind of the operation's span around it


TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
KINDS = tuple(Kind(name, **fields) for name, fields in TABLES["kinds"].items())
BY_WORD = {word: kind for kind in KINDS for word in (kind.name, *kind.words)}
UNKNOWN = "unknown"  # begins the name of a kind that no rule matches; its module follows
COMPOSITE = "composite"  # in the tables: an operation that only calls others, without a kind
SYSTEM = re.compile(r"^\[(kernel|guest)|\.ko$")
LIBC = re.compile(r"^lib(c|c-\d.*|pthread|pthread-.*)\.so|^ld-linux|^ld-\d")
SUITE = re.compile(r"^(?P<source>\w+?)-[0-9a-f]{24}\.so$")  # as kernels.build names what it compiles
PYTHON = re.compile(r"^(lib)?python\d")
OPENMP = re.compile(r"^lib(gomp|iomp5|omp)\b")  # they start threads, and wait for them; wheels strip their names
BINDINGS = re.compile(r"^lib(torch_python|c10|shm|pybind)\b|^_C\.")  # libraries that hold nothing but dispatch
SUFFIX = re.compile(r"(_backward(_data|_input)?|_functional|_out|_)$")
OPERATIONS: dict[str, str] = {
    name if "::" in name else f"aten::{name}": kind
    for kind, names in TABLES["operations"].items()
    for name in names.split()
}


def named(word: str) -> str:
    """Return the name of the kind with this name or synonym, or the word itself if unknown."""
    return BY_WORD[word].name if word in BY_WORD else word


def find(name: str) -> Kind:
    """Return the kind of this name or synonym, or a new kind: in calls, or without unit if `unknown…`."""
    return BY_WORD.get(name) or Kind(name, None if name.startswith(UNKNOWN) else CALLS)


def of_unit(unit: str) -> tuple[str, ...]:
    """Return the names of the kinds whose work has this unit."""
    return tuple(kind.name for kind in KINDS if kind.unit == unit)


@functools.cache
def _rules(table: str) -> Sequence[tuple[str, re.Pattern[str]]]:
    """Return a table's rules, each a kind and a pattern."""
    return [(kind, re.compile("".join(pieces))) for kind, *pieces in TABLES[table]]


def _first(table: str, name: str) -> str | None:
    """Return the kind of a table's first rule that matches the name; None if no rule matches."""
    return next((kind for kind, pattern in _rules(table) if pattern.search(name)), None)


@functools.cache
def _sources() -> dict[str, str]:
    """Map the stems of the suite's C files to the names of their operations."""
    return {path.stem: path.parent.name for path in Path(ops.__file__).parent.glob("*/*.c")}


@functools.cache
def of_symbol(symbol: str, module: str) -> str:
    """Return a sample's kind from its symbol and module; `unknown: MODULE` if no rule matches."""
    base = PurePath(module).name
    if "vdso" in module:
        return "OS other"
    if SYSTEM.search(module):
        return _first("system", symbol) or "OS other"
    if match := SUITE.match(base):
        return str(TABLES["suite"].get(_sources().get(match["source"]), "element-wise"))
    if LIBC.search(base):
        return _first("libc", symbol) or "interpreter"
    if base.startswith("libm."):
        return "interpreter" if symbol.startswith("fe") else "element-wise"  # NumPy's floating-point flags
    if kind := _first("symbols", symbol):
        return kind
    if OPENMP.search(base):
        return "spin"
    if BINDINGS.search(base):
        return "dispatch"
    if PYTHON.search(base) or base.startswith("_multiarray_umath."):
        return "interpreter"
    return f"{UNKNOWN}: {base.strip('[]') or 'no module'}"


MOVES = ("cast", "indexing", "sorting")  # operations whose kernels copy


def joined(symbol: str, span: str | None) -> str:
    """Return the kind of a sample of kind `symbol` inside a span of kind `span`.

    The span names what symbols cannot, such as generated code; memory, waiting and dispatch inside it keep their kind.
    """
    unnamed = symbol.startswith(UNKNOWN)
    if span is None or span == symbol:
        return symbol
    if span == "dispatch":  # the operation only calls others, or handles shapes
        return span if unnamed else symbol
    if span == "data":
        return span if unnamed or symbol in ("interpreter", "dispatch") else symbol
    if find(span).inclusive:  # its products and what it calls are parts of it, and copies are changes of layout
        parts = {"gemm": span, "dispatch": span, "copy": "layout reorder"}
        return span if unnamed else parts.get(symbol, span if find(symbol).renamed else symbol)
    if symbol == "copy" and span in MOVES:
        return span
    if not (find(symbol).renamed or unnamed):
        return symbol
    if span == "gemm":
        return "gemm" if unnamed else symbol
    return symbol if symbol == "gemm" else span


def stem(name: str) -> str:
    """Return the table's name of an operation (`aten::add` for `aten::add_`), or the name if not in it."""
    form = name.replace("aten::special_", "aten::")
    while form not in OPERATIONS:
        shorter = SUFFIX.sub("", form)
        if shorter == form:
            return name
        form = shorter
    return form


@functools.cache
def _lookup(name: str) -> str | None:
    """Return an operation's kind by the table, else by a rule, else None; a view's `_copy` form is a copy."""
    if of := OPERATIONS.get(stem(name)):
        return of
    if name.endswith("_copy") and OPERATIONS.get(name.removesuffix("_copy")) == "dispatch":
        return "copy"
    return _first("events", name)


def known(name: str) -> bool:
    """Return whether the tables classify a PyTorch operation, if only as composite."""
    return _lookup(name) is not None


def of_operation(name: str) -> str | None:
    """Return the kind of a PyTorch operation; None if it is composite or not `known`."""
    of = _lookup(name)
    return None if of == COMPOSITE else of


@functools.lru_cache(maxsize=4096)
def of_kernel(name: str) -> str:
    """Return the kind of a GPU kernel by its name; `unknown` if no rule matches."""
    return _first("kernels", name.lower()) or UNKNOWN
