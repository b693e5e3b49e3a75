"""Benchmarks as data: a problem, the default values of its axes, its questions; and requests to them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from kernels.catalog import find, rows
from kernels.devices import kind_of, missing, open_device, running
from kernels.errors import Unavailable, UsageError
from kernels.problem import Problem
from kernels.setting import Setting
from kernels.variant import DEFAULT
from micro.planning.contest import Case, Contest

if TYPE_CHECKING:
    from kernels.devices.kind import Kind

P = TypeVar("P", bound=Problem)
OUTSIDE = 4  # last-level caches that operands take to come from memory
UNKNOWN = 32 << 20  # bytes of the last cache of a device that reports none, as in its limits


class NothingWritten(UsageError):
    """A command line for which a device has no kernel."""


@functools.cache
def outside_caches(device: str) -> int:
    """Return bytes of operands that a device takes from its memory, a power of two.

    At least OUTSIDE last-level caches; for a device that is not here, of a usual size."""
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

    A question is a flag; its function turns a request into contests. Which rows are measured by default stands in the
    operation's table.
    """

    problem: type[Problem]
    about: str
    sweep: dict[str, tuple[Any, ...]]
    questions: dict[str, Question] = field(default_factory=dict)
    useful: tuple[Useful, ...] = ()  # the command lines that `python -m micro all` runs
    small: str = ""  # words that make each useful line take no time, for a test
    net: Question | None = None  # of --net
    of_file: Callable[[Any, Any], list[str]] = lambda run, written: []  # sentences on a run of a file's problems
    default: str = ""  # the question of a command line without a question, a comparison or an axis of `sweeping`
    sweeping: tuple[str, ...] = ()
    limiting: tuple[str, ...] = ()  # axes by which questions make their sizes smaller, each in its own way
    others: tuple[Benchmark, ...] = ()  # further operations of this command, chosen by their axes or questions
    data: str = "normal"  # contents of the operands, unless --data names others
    oversubscribed: bool = False  # more threads than cores are allowed

    @property
    def words(self) -> frozenset[str]:
        """Axes and questions, and `net` if there is one, which distinguish it from `others`."""
        return frozenset((*(field.name for field in fields(self.problem)), *self.questions, *["net"] * bool(self.net)))

    @property
    def swept(self) -> frozenset[tuple[str, str]]:
        """Operation and axis, or setting, of everything that has a default here."""
        every = (self, *self.others)
        data = {(benchmark.problem.op, "data") for benchmark in every if benchmark.data != "normal"}
        return frozenset({(benchmark.problem.op, axis) for benchmark in every for axis in benchmark.sweep} | data)


@dataclass(frozen=True)
class Question:
    """A question of a benchmark: its contests, further ones from their results, and its answer."""

    help: str
    build: Callable[[Request], list[Contest]]
    answer: Callable[[Any], list[str]] | None = None  # sentences for the top of the report; None: all ratios
    seconds: float = 30.0  # its budget of measuring
    refine: Callable[[Request, Any], list[Contest]] = lambda asked, run: []  # from the run so far, until there are none
    full: str = ""  # what --full makes of it; empty: nothing
    all: str = ""  # what --all makes of it; empty: nothing
    kept: float = 0.0  # share of the budget for what `refine` gives
    several: tuple[str, ...] = ()  # settings of which it takes more than one value


@dataclass(frozen=True)
class Request:
    """A parsed command line, as questions take it."""

    op: str  # the operation
    axes: dict[str, tuple[Any, ...]]
    variants: tuple[str, ...]
    settings: tuple[Setting, ...]
    flags: frozenset[str]  # that modify a question
    given: frozenset[str] = frozenset()  # axes named on the command line rather than left at their default
    absent: Mapping[str, str] = field(default_factory=dict)  # devices that are not here, and why
    net: str = ""  # a network
    all_cold: bool = False  # all operands are cold, of each problem its own

    @property
    def device(self) -> Kind:
        """The kind of the first device."""
        return kind_of(self.settings[0].device)

    @property
    def memory(self) -> int:
        """Bytes of operands that the first device takes from its memory."""
        return outside_caches(self.settings[0].device)

    @property
    def every(self) -> bool:
        """True with --all."""
        return "all" in self.flags

    def named(self, option: str, usual: Iterable[Any]) -> tuple[Any, ...]:
        """Return the values of an axis, or the variants, if they were named; else the usual ones."""
        values = self.variants if option == "variant" else self.axes.get(option, ())
        return tuple(values if option in self.given else usual)

    def chosen(self, *roles: str) -> tuple[str, ...]:
        """Return the variants that were named, else those of these roles."""
        return self.named("variant", self.rows(*roles))

    def limited(self, **axes: tuple[Any, ...]) -> Request:
        """Return the request as if these axes had been named."""
        return replace(self, axes=self.axes | axes, given=self.given | axes.keys())

    def resized(self, problem: P, *axes: str) -> P:
        """Return the problem with the first values of those of these axes that were named."""
        return replace(problem, **{axis: self.axes[axis][0] for axis in axes if axis in self.given})

    def rows(self, *roles: str, op: str = "") -> tuple[str, ...]:
        """Return the variants of an operation's table that have one of these roles on the first device."""
        table = rows(op or self.op, self.device.kernels)
        return tuple(row.name for row in table if set(roles or (DEFAULT,)) & set(row.roles))

    def case(self, problem: Problem, variant: str, setting: Setting | None = None) -> Case:
        """Return the case, skipped with a reason if its device or variant is not here or refuses it."""
        setting = self.at(problem, setting or self.settings[0])
        return Case(problem, variant, setting, skip=self._why_not(problem, variant, setting))

    def between(
        self,
        name: str,
        question: str,
        problem: Problem,
        variants: Iterable[str],
        differs: str = "variant",
        pairs: Iterable[tuple[int, int]] = (),
    ) -> Contest:
        """Return the contest of variants on one problem."""
        return Contest(name, question, differs, tuple(self.case(problem, x) for x in variants), tuple(pairs))

    def along(self, name: str, question: str, differs: str, problems: Iterable[Problem], variant: str) -> Contest:
        """Return the contest of problems by one variant."""
        return Contest(name, question, differs, tuple(self.case(problem, variant) for problem in problems))

    def at(self, problem: Problem, setting: Setting) -> Setting:
        """Return the setting, with the problem's own operands if all are cold."""
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
        """Return variants and settings, each variant on the devices that run it; on the first if none does."""
        pairs = []
        for setting in self.settings:
            for variant in self.variants:
                kernels = find(self.op, variant).device
                runnable = kernels in {kind_of(other.device).kernels for other in self.settings}
                if kind_of(setting.device).kernels == kernels or (not runnable and setting == self.settings[0]):
                    pairs.append((variant, setting))
        return pairs


def default_rows(benchmark: Benchmark, device: str) -> list[str]:
    """Return the variants that are measured on a device by default."""
    return [row.name for row in rows(benchmark.problem.op, kind_of(device).kernels) if DEFAULT in row.roles]
