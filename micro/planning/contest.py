"""Cases and the contests in which they are measured. Pure: opens no device, imports nothing heavy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Literal, TypeAlias, get_type_hints

from kernels.catalog import problem_type
from kernels.errors import UsageError
from kernels.problem import Problem
from kernels.setting import KNOBS, Setting

# Constants of sampling a case, shared by plans, workers and answers.
VISIT = 60e-6  # seconds of launches in a sample
# Seconds of a sample if worker processes take turns, so that switching is negligible, and of a sample on a GPU, whose
# events resolve half a microsecond.
ACROSS = 1e-3
LONG = 50e-3  # seconds: longer calls are not warmed up, and no cache holds their operands
WARM = 2  # warm-up calls; with a single call, operands between L2 and L3 read 11 % too slow
PREPARE = 120.0  # seconds that a case may take to be prepared: compilers and imports
Role: TypeAlias = Literal["measured", "canary", "ceiling"]


@dataclass(frozen=True)
class Case:
    """A variant (kernel) on a problem in a setting, possibly skipped for a reason."""

    problem: Problem
    variant: str
    setting: Setting = field(default_factory=Setting)
    role: Role = "measured"  # canaries and ceilings are timed beside the measured cases
    skip: str | None = None  # the reason why the case is not run

    @property
    def name(self) -> str:
        """Name of the case, unique in its contest; `parse` turns it back into the case."""
        variant = self.variant.replace("%", "%25").replace("/", "%2F")  # a file's path parses back
        return f"{self.problem.name}/variant:{variant}/{self.setting.name}"


@dataclass(frozen=True)
class Contest:
    """Cases that answer one question and differ in one thing.

    `pairs`: (baseline, contender) positions; `sparing`: if rounds are few, cases that take far longer
    than the first case are left out of these rounds."""

    name: str
    question: str
    differs: str  # what the cases differ in; unequal work has to begin with `work: differs`
    cases: tuple[Case, ...]
    pairs: tuple[tuple[int, int], ...] = ()
    margin: float | None = None  # ratios within ± this count as the same, unless the budget has a margin
    sparing: bool = False

    @property
    def comparisons(self) -> tuple[tuple[int, int], ...]:
        """Pairs of positions: each case against the first, unless the contest names its pairs."""
        return self.pairs or tuple((0, i) for i in range(1, len(self.cases)))

    @property
    def title(self) -> str:
        """Heading for a person who waits: the question, and shared settings that it does not mention."""
        first, *others = (case.name.split("/") for case in self.cases)
        shared = [word.removeprefix("variant:") for word in first if all(word in words for words in others)]
        mentioned = {"threads:1", *re.split(r"[\s/,?']+", self.question)}
        return " ".join([self.question, *(word for word in shared if word not in mentioned)])

    def __post_init__(self) -> None:
        names = [case.name for case in self.cases]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name}: two cases have the same name")
        flops = {case.problem.flops for case in self.cases}
        if len(flops) > 1 and not self.differs.startswith("work: differs"):
            raise UsageError(f"{self.name}: its cases do unequal work; declare this by differs='work: differs'")


@dataclass(frozen=True)
class Budget:
    """Measuring time of a command in seconds; target half-width and margin of its ratios."""

    seconds: float
    target: float = 0.01
    margin: float | None = None


def one_case(contests: Sequence[Contest], option: str, does: str, cannot: str) -> Case:
    """Return the only case of a plan, for an option that `does` ("explains") something with it. Raises UsageError."""
    cases = {case.name: case for contest in contests for case in contest.cases}
    if len(cases) != 1:
        raise UsageError(f"{option}: {does} a single case, but {len(cases)} are selected; name one --variant and size")
    (case,) = cases.values()
    if case.skip:
        raise UsageError(f"{option}: {case.name} cannot {cannot}: {case.skip}")
    return case


def parse(name: str) -> Case:
    """Return the case whose `Case.name` is `name`. Raises UsageError."""
    op, *words = name.split("/")
    pairs = dict(word.split(":", 1) for word in words)
    kind = problem_type(op)
    hints = _hints(kind)  # type: ignore[arg-type]  # mypy takes an instance's __hash__ for the class's
    axes = {x.name: hints[x.name](pairs.pop(x.name)) for x in fields(kind) if x.name in pairs}
    variant = pairs["variant"].replace("%2F", "/").replace("%25", "%")
    given = {name: knob.parse(pairs[name]) for name, knob in KNOBS.items() if name in pairs}
    return Case(kind(**axes), variant, Setting(**given))


@cache
def _hints(kind: type[Problem]) -> dict[str, Any]:
    """Return the types of a problem's fields, cached: resolving them is half the time of `parse`."""
    return get_type_hints(kind)
