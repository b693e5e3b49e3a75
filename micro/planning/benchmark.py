"""Benchmarks as data (problem, default values of axes, questions), and the requests they answer."""

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
OUTSIDE = 4  # times the last-level cache: operands of this size are read from memory
UNKNOWN = 32 << 20  # bytes assumed for the last-level cache of a device that reports none


class NothingWritten(UsageError):
    """A command line for which a device has no kernel."""


@functools.cache
def outside_caches(device: str) -> int:
    """Return an operand size in bytes, a power of two, that exceeds a device's caches.

    At least OUTSIDE times its last-level cache; for a device that is not here, that of its kind."""
    caches = kind_of(device).caches
    if not kind_of(device).scripted and missing(device) is None:
        with suppress(Unavailable):
            caches = open_device(device).limits().caches or caches
    return 1 << (OUTSIDE * max(caches, default=UNKNOWN) - 1).bit_length()


@dataclass(frozen=True, eq=False)
class Useful:
    """A command line of a benchmark that `python -m micro all` runs."""

    words: str = ""  # {memory} stands for an operand size in bytes that exceeds the device's caches
    rank: int = 0  # order on a GPU across all benchmarks, the most valuable line lowest; 0: a line for other devices
    seconds: float | None = None  # budget of measuring; None: the question's default


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A benchmark, as a file of `micro/` defines it: problem type, default values of the axes, questions.

    A question is a flag whose function turns a request into contests. Variants that are measured by default have the
    role DEFAULT in the operation's table.
    """

    problem: type[Problem]
    about: str
    sweep: dict[str, tuple[Any, ...]]
    questions: dict[str, Question] = field(default_factory=dict)
    useful: tuple[Useful, ...] = ()  # the command lines that `python -m micro all` runs
    small: str = ""  # options with sizes so small that each useful line takes no time, for tests
    net: Question | None = None  # the question of --net
    of_file: Callable[[Any, Any], list[str]] = lambda run, written: []  # the answer to --shapes FILE
    default: str = ""  # question if the command line has no question, no axis of `sweeping`, no --vary or the like
    sweeping: tuple[str, ...] = ()  # axes that replace the default question by contests between variants
    limiting: tuple[str, ...] = ()  # axes by which a question scales its problems down, rather than taking these values
    others: tuple[Benchmark, ...] = ()  # further operations of this command, chosen by their axes or questions
    data: str = "normal"  # contents of the operands, unless --data names others
    oversubscribed: bool = False  # more threads than cores are allowed

    @property
    def words(self) -> frozenset[str]:
        """Names of axes and questions, and `net` if it has one, by which a command line selects it."""
        return frozenset((*(field.name for field in fields(self.problem)), *self.questions, *["net"] * bool(self.net)))

    @property
    def swept(self) -> frozenset[tuple[str, str]]:
        """Pairs (operation, axis or setting) for which this benchmark sets a default."""
        every = (self, *self.others)
        data = {(benchmark.problem.op, "data") for benchmark in every if benchmark.data != "normal"}
        return frozenset({(benchmark.problem.op, axis) for benchmark in every for axis in benchmark.sweep} | data)


@dataclass(frozen=True, eq=False)
class Question:
    """A question of a benchmark: how to build its contests, refine them by results, and answer it."""

    help: str
    build: Callable[[Request], list[Contest]]
    answer: Callable[[Any], list[str]] | None = None  # sentences for the top of the report; None: all ratios
    seconds: float = 30.0  # its budget of measuring
    refine: Callable[[Request, Any], list[Contest]] = lambda asked, run: []  # further contests, until there are none
    full: str = ""  # effect of --full, for the help; empty: none
    all: str = ""  # effect of --all, for the help; empty: none
    kept: float = 0.0  # share of the budget reserved for the contests of `refine`
    several: tuple[str, ...] = ()  # settings that may have several values, such as `threads`


@dataclass(frozen=True, eq=False)
class Request:
    """A parsed command line, from which a question builds its contests."""

    op: str  # the operation, such as gemm
    axes: dict[str, tuple[Any, ...]]
    variants: tuple[str, ...]
    settings: tuple[Setting, ...]
    flags: frozenset[str]  # questions that were named, `full` and `all`
    given: frozenset[str] = frozenset()  # axes named on the command line rather than left at their default
    absent: Mapping[str, str] = field(default_factory=dict)  # devices that are not here, and why
    net: str = ""  # network of --net; empty: none
    all_cold: bool = False  # every operand of each problem is cold (--cold all)

    @property
    def device(self) -> Kind:
        """Kind of the first device, such as CPU or CUDA GPU."""
        return kind_of(self.settings[0].device)

    @property
    def memory(self) -> int:
        """Operand size in bytes that exceeds the first device's caches."""
        return outside_caches(self.settings[0].device)

    @property
    def every(self) -> bool:
        """True with --all."""
        return "all" in self.flags

    def named(self, option: str, usual: Iterable[Any]) -> tuple[Any, ...]:
        """Return the values of an axis, or of `variant`, if the command line names it; else `usual`."""
        values = self.variants if option == "variant" else self.axes.get(option, ())
        return tuple(values if option in self.given else usual)

    def chosen(self, *roles: str) -> tuple[str, ...]:
        """Return the variants that the command line names, else those with one of these roles."""
        return self.named("variant", self.rows(*roles))

    def limited(self, **axes: tuple[Any, ...]) -> Request:
        """Return the request as if the command line had named these axes."""
        return replace(self, axes=self.axes | axes, given=self.given | axes.keys())

    def resized(self, problem: P, *axes: str) -> P:
        """Return the problem with each of these axes that was named set to its first value."""
        return replace(problem, **{axis: self.axes[axis][0] for axis in axes if axis in self.given})

    def rows(self, *roles: str, op: str = "") -> tuple[str, ...]:
        """Return the variants of an operation's table that have one of these roles on the first device."""
        table = rows(op or self.op, self.device.kernels)
        return tuple(row.name for row in table if set(roles or (DEFAULT,)) & set(row.roles))

    def case(self, problem: Problem, variant: str, setting: Setting | None = None) -> Case:
        """Return the case; if it cannot run here, it is marked as skipped with the reason."""
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
        """Return the contest that compares variants on one problem."""
        return Contest(name, question, differs, tuple(self.case(problem, x) for x in variants), tuple(pairs))

    def along(self, name: str, question: str, differs: str, problems: Iterable[Problem], variant: str) -> Contest:
        """Return the contest that compares problems, all run by one variant."""
        return Contest(name, question, differs, tuple(self.case(problem, variant) for problem in problems))

    def at(self, problem: Problem, setting: Setting) -> Setting:
        """Return the setting; with --cold all, its `cold` lists all operands of this problem."""
        if not (self.all_cold and setting.cold):
            return setting
        return replace(setting, cold=tuple(x.name for x in problem.operands()))

    def _why_not(self, problem: Problem, variant: str, setting: Setting) -> str | None:
        row: Any = find(problem.op, variant)
        device, names = setting.device, [x.name for x in problem.operands()]
        if strange := [name for name in setting.cold if name not in names]:
            return f"no operand {', '.join(strange)} to make cold: choose from {', '.join(names)}"
        if device in self.absent:
            return self.absent[device]
        kind = kind_of(device)
        if row.device != kind.kernels:
            runs = running(row.device)
            return f"a kernel for {row.device}: " + (f"--device {runs.first}" if runs else "no device here runs it")
        reason: str | None = None if kind.scripted else row.missing()
        return reason or row.accepts(problem)

    def pairs(self) -> list[tuple[str, Setting]]:
        """Return (variant, setting) pairs: each variant on devices that run it, or on the first if none does."""
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
