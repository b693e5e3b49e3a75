"""A benchmark as data: its problem, the values its axes have by default, its questions; and what one is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kernels.catalog import find
from kernels.devices import runs
from kernels.launch import Setting
from kernels.problem import Problem
from micro.planning.contest import Case, Contest


@dataclass(frozen=True)
class Useful:
    """A command line of a benchmark that is worth running of it. `rank`: what is worth most comes first, across all
    benchmarks; its hundreds are the part of a visit to a GPU in which it is asked. `seconds` of measuring, where not
    what its question takes by default."""

    words: str = ""
    rank: int = 100
    seconds: float | None = None


@dataclass(frozen=True)
class Benchmark:
    """A file of `micro/`: its problem, the values its axes have by default, its questions.

    A question is a flag; its function turns what was asked into contests. `default`: the question that is put where a
    command line names neither another nor what to compare, nor an axis of `sweeping`. `limiting`: axes by which
    questions make their sizes smaller, each in its own way. `others`: of further operations that the same command
    measures; the one whose axes or questions are named is meant. `data`: what operands hold, unless a person says
    otherwise. `variants` are measured by default on a CPU, `cuda` on a GPU. `useful`: the command
    lines that `python -m micro all` runs of it, by the kind of kernels; `small`: words that make each of them take no
    time, for a test of the whole. `net`: what --net asks.
    """

    problem: type[Problem]
    about: str
    sweep: dict[str, tuple[Any, ...]]
    questions: dict[str, Question]
    variants: tuple[str, ...]
    cuda: tuple[str, ...] = ()
    useful: Mapping[str, tuple[Useful, ...]] = field(default_factory=dict)
    small: str = ""
    net: Question | None = None
    default: str = ""
    sweeping: tuple[str, ...] = ()
    limiting: tuple[str, ...] = ()
    others: tuple[Benchmark, ...] = ()
    data: str = "normal"

    @property
    def words(self) -> frozenset[str]:
        """Its axes and questions, which tell it from `others`."""
        return frozenset((*(field.name for field in fields(self.problem)), *self.questions))

    @property
    def swept(self) -> frozenset[tuple[str, str]]:
        """Operation and axis, or setting, of all that has a default here."""
        every = (self, *self.others)
        data = {(one.problem.op, "data") for one in every if one.data != "normal"}
        return frozenset({(one.problem.op, axis) for one in every for axis in one.sweep} | data)

    def rows(self, kernels: str) -> tuple[str, ...]:
        """The variants that are measured by default, for one kind of kernels."""
        return {"cpu": self.variants, "cuda": self.cuda}[kernels]


@dataclass(frozen=True)
class Question:
    """`build` gives its contests; `refine` further ones from the run so far, until there are none; `answer`
    the sentences for the top of the report. `seconds`: its budget of measuring."""

    help: str
    build: Callable[[Asked], list[Contest]]
    answer: Callable[[Any], list[str]] = lambda run: []
    seconds: float = 30.0
    refine: Callable[[Asked, Any], list[Contest]] = lambda asked, run: []


@dataclass(frozen=True)
class Asked:
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
    def kernels(self) -> str:
        """Which kernels its first device runs: cpu, cuda."""
        return runs(self.settings[0].device)

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
        if row.device != runs(device):
            return f"a kernel for {row.device}: --device {row.device}{':0' if row.device != 'cpu' else ''}"
        plays = device.startswith("fake")  # whatever is missing here, it answers in its place
        reason: str | None = None if plays else row.missing()
        return reason or row.accepts(problem)

    def pairs(self) -> list[tuple[str, Setting]]:
        """Variants and settings, each variant on the devices that run it; on the first where none does."""
        found = []
        for setting in self.settings:
            for variant in self.variants:
                kind = find(self.op, variant).device
                known = kind in {runs(other.device) for other in self.settings}
                if runs(setting.device) == kind or (not known and setting == self.settings[0]):
                    found.append((variant, setting))
        return found
