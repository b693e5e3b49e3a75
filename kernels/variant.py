"""Variant: one kernel that solves a problem. Launch: one call of it, ready to be timed."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from kernels.dtypes import UNIT_ROUNDOFF
from kernels.errors import UsageError
from kernels.problem import Problem, Work

if TYPE_CHECKING:
    from kernels.devices.base import Device

P = TypeVar("P", bound=Problem)


@dataclass(frozen=True, slots=True)
class Setting:
    """How, not what. `device`, `threads`, `isa`, the instruction set or kernel family that libraries are asked
    for, and `heap`, the allocator's policy, are fixed per process; `cold` names the operands not in cache, `data`
    what all are drawn from."""

    threads: int = 1
    cold: tuple[str, ...] = ()
    device: str = "cpu"
    isa: str = "default"
    data: str = "normal"
    heap: str = "default"

    @property
    def name(self) -> str:
        """Threads, and the others where they differ from their default."""
        words = [f"threads:{self.threads}"]
        if self.device != "cpu":
            words.insert(0, f"device:{self.device}")
        if self.isa != "default":
            words.append(f"isa:{self.isa}")
        if self.data != "normal":
            words.append(f"data:{self.data}")
        if self.heap != "default":
            words.append(f"heap:{self.heap}")
        return "/".join(words + ([f"cold:{'+'.join(self.cold)}"] if self.cold else []))


@dataclass(frozen=True, slots=True)
class Entry:
    """The compiled way into a launch: `function(argument)`, a C function and a structure.

    `slots` are the byte offsets in the structure at which the operands' addresses stand, in the
    problem's order, so that a compiled loop can move a launch without Python. `single`: the function and
    the offset of its argument that make one call, where a launch is several.
    """

    function: int
    argument: ctypes.Structure
    slots: tuple[int, ...]
    keep: tuple[object, ...] = ()
    single: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """One bound call. `call` enqueues once and does nothing else; one call serves `uses` uses. `capturable`:
    on CUDA, it may be recorded into a graph. `kernels`: how many one call enqueues on a GPU's stream, at most; 0:
    not known."""

    call: Callable[[], object]
    uses: int = 1
    workspace: int = 0
    entry: Entry | None = None
    capturable: bool = False
    kernels: int = 0


Bind: TypeAlias = "Callable[[Sequence[Any]], Launch]"


@dataclass(frozen=True)
class Variant(Generic[P]):
    """A row in an operation's table.

    `prepare` compiles, plans, packs and allocates once; the bind it returns only sets addresses.
    `accepts` is pure: why this kernel cannot, or should not, do a problem. `missing` tells without
    importing anything why it cannot run on this installation. `work` is what it really executes
    where that differs from the nominal. `constant` names the inputs it may keep between calls.
    `parts`, where a launch would be too long, are measured in its place, each once a round, and their
    times per use summed: (variant, uses).
    `blas` says which library call it makes, in the library's own column-major terms; `kernel` what its
    library tells of itself: version and kernel family, instruction set. `python`: each call passes
    through the interpreter.
    """

    name: str
    device: str
    provider: str
    prepare: Callable[[P, Device, Setting], Bind]
    precision: str = "fp32"
    growth: float = 1.0
    accepts: Callable[[P], str | None] = lambda problem: None
    missing: Callable[[], str | None] = lambda: None
    work: Callable[[P], Work] | None = None
    constant: tuple[str, ...] = ()
    parts: Callable[[P], tuple[tuple[Variant[P], int], ...]] = lambda problem: ()
    blas: Callable[[P], str | None] = lambda problem: None
    kernel: Callable[[], tuple[str | None, str | None]] = lambda: (None, None)
    python: bool = False

    def computes(self, problem: P) -> str:
        """The precision of its answer: what the problem asks for, or its own where that is coarser."""
        if self.precision == "fp32":  # it has none of its own
            return problem.precision
        return max(self.precision, problem.precision, key=lambda name: UNIT_ROUNDOFF[name])

    def u(self, problem: P) -> float:
        """Unit roundoff times its error growth."""
        return UNIT_ROUNDOFF[self.computes(problem)] * self.growth

    def executed(self, problem: P) -> Work:
        return self.work(problem) if self.work else Work(problem.flops, problem.bytes)


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
        from kernels.repeated import repeated

        return repeated(find(op, times[1]), int(times[2]), name)
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
        from kernels.users import load

        return load(name)
    if name.endswith(".py"):
        raise UsageError(f"--variant {name}: name a function in it, as {name}:product")
    raise UsageError(f"--variant {name}: there are {', '.join(x.name for x in variants(op))}")
