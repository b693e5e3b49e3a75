"""A benchmark as data: its problem, the values its axes have by default, its questions; and what one is asked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from kernels.catalog import find, rows
from kernels.devices import kind_of, missing, open_device, running
from kernels.errors import Unavailable, UsageError
from kernels.problem import Problem
from kernels.setting import Setting
from kernels.variant import DEFAULT
from micro.planning.contest import Case, Contest

if TYPE_CHECKING:
    from kernels.devices.kind import Kind

OUTSIDE = 4  # last-level caches that operands take to come from memory
UNKNOWN = 32 << 20  # bytes of the last cache of a device that tells of none, as in its limits


class NothingWritten(UsageError):
    """No kernel of a device is what a command line asks for."""


@functools.cache
def outside_caches(device: str) -> int:
    """Bytes of operands that a device takes from its memory: a power of two, at least OUTSIDE of its last cache; of one
    that is not here, of a usual one's."""
    caches = kind_of(device).caches
    if not kind_of(device).scripted and missing(device) is None:
        with suppress(Unavailable):
            caches = open_device(device).limits().caches or caches
    return 1 << (OUTSIDE * max(caches, default=UNKNOWN) - 1).bit_length()


@dataclass(frozen=True)
class Useful:
    """A command line of a benchmark that `python -m micro all` runs."""

    words: str = ""  # {memory} stands for bytes that come from the device's memory, not from its caches
    rank: int = 0  # order on a GPU across all benchmarks, the most valuable line lowest; 0: a line for other devices
    seconds: float | None = None  # of measuring; None: what the question takes by default


@dataclass(frozen=True)
class Benchmark:
    """A file of `micro/`: its problem, the values its axes have by default, its questions.

    A question is a flag; its function turns what was asked into contests. `default`: the question that is put where a
    command line names neither another nor what to compare, nor an axis of `sweeping`. `limiting`: axes by which
    questions make their sizes smaller, each in its own way. `others`: of further operations that the same command
    measures; the one whose axes or questions are named is meant. `data`: what operands hold, unless a person says
    otherwise. Which rows are measured by default stands in the operation's table. `useful`: the command lines that
    `python -m micro all` runs of it; `small`: words that make each of them take no time, for a test of the whole.
    `net`: what --net asks. `oversubscribed`: more threads than cores may be asked for. `of_file`: what is said of a run
    of a file's problems, `Written`.
    """

    problem: type[Problem]
    about: str
    sweep: dict[str, tuple[Any, ...]]
    questions: dict[str, Question]
    useful: tuple[Useful, ...] = ()
    small: str = ""
    net: Question | None = None
    of_file: Callable[[Any, Any], list[str]] = lambda run, written: []
    default: str = ""
    sweeping: tuple[str, ...] = ()
    limiting: tuple[str, ...] = ()
    others: tuple[Benchmark, ...] = ()
    data: str = "normal"
    oversubscribed: bool = False

    @property
    def words(self) -> frozenset[str]:
        """Its axes and questions, `net` where it has one, which tell it from `others`."""
        return frozenset((*(field.name for field in fields(self.problem)), *self.questions, *["net"] * bool(self.net)))

    @property
    def swept(self) -> frozenset[tuple[str, str]]:
        """Operation and axis, or setting, of all that has a default here."""
        every = (self, *self.others)
        data = {(benchmark.problem.op, "data") for benchmark in every if benchmark.data != "normal"}
        return frozenset({(benchmark.problem.op, axis) for benchmark in every for axis in benchmark.sweep} | data)


@dataclass(frozen=True)
class Question:
    """`build` gives its contests; `refine` further ones from the run so far, until there are none; `answer`
    the sentences for the top of the report. `seconds`: its budget of measuring, `kept`: the share of it that is for
    what `refine` gives. `full`, `all`: what these flags make of it; empty where they change nothing. `several`:
    settings of which it takes more than one value."""

    help: str
    build: Callable[[Request], list[Contest]]
    answer: Callable[[Any], list[str]] = lambda run: []
    seconds: float = 30.0
    refine: Callable[[Request, Any], list[Contest]] = lambda asked, run: []
    full: str = ""
    all: str = ""
    kept: float = 0.0
    several: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """What the command line said: the operation, axis values, variants, settings, the flags that modify a question, and
    which axes a person named rather than left at their default; devices that are not here, and why; a network; whether
    all operands are cold, of each problem its own."""

    op: str
    axes: dict[str, tuple[Any, ...]]
    variants: tuple[str, ...]
    settings: tuple[Setting, ...]
    flags: frozenset[str]
    given: frozenset[str] = frozenset()
    absent: Mapping[str, str] = field(default_factory=dict)
    net: str = ""
    all_cold: bool = False

    @property
    def device(self) -> Kind:
        """What its first device is."""
        return kind_of(self.settings[0].device)

    @property
    def memory(self) -> int:
        """Bytes of operands that its first device takes from its memory."""
        return outside_caches(self.settings[0].device)

    def rows(self, *roles: str, op: str = "") -> tuple[str, ...]:
        """Of its operation's table, or another's, what is measured in one of these roles on its first device."""
        table = rows(op or self.op, self.device.kernels)
        return tuple(row.name for row in table if set(roles or (DEFAULT,)) & set(row.roles))

    def case(self, problem: Problem, variant: str, setting: Setting | None = None) -> Case:
        """The case, skipped with its reason where its device or the variant is not here, or refuses it."""
        setting = self.at(problem, setting or self.settings[0])
        return Case(problem, variant, setting, skip=self._why_not(problem, variant, setting))

    def at(self, problem: Problem, setting: Setting) -> Setting:
        """The setting with the problem's own operands where all are cold."""
        if not (self.all_cold and setting.cold):
            return setting
        return replace(setting, cold=tuple(x.name for x in problem.operands()))

    def _why_not(self, problem: Problem, variant: str, setting: Setting) -> str | None:
        row: Any = find(problem.op, variant)
        device, names = setting.device, [x.name for x in problem.operands()]
        if strange := [name for name in setting.cold if name not in names]:
            return f"no operand {', '.join(strange)} that could be cold: there are {', '.join(names)}"
        if device in self.absent:
            return self.absent[device]
        kind = kind_of(device)
        if row.device != kind.kernels:
            runs = running(row.device)
            return f"a kernel for {row.device}: " + (f"--device {runs.first}" if runs else "no device here runs it")
        reason: str | None = None if kind.scripted else row.missing()
        return reason or row.accepts(problem)

    def pairs(self) -> list[tuple[str, Setting]]:
        """Variants and settings, each variant on the devices that run it; on the first where none does."""
        pairs = []
        for setting in self.settings:
            for variant in self.variants:
                kernels = find(self.op, variant).device
                runnable = kernels in {kind_of(other.device).kernels for other in self.settings}
                if kind_of(setting.device).kernels == kernels or (not runnable and setting == self.settings[0]):
                    pairs.append((variant, setting))
        return pairs


def default_rows(benchmark: Benchmark, device: str) -> list[str]:
    """What is measured on a device where no variant is named."""
    return [row.name for row in rows(benchmark.problem.op, kind_of(device).kernels) if DEFAULT in row.roles]
