"""Axis values to problems to cases to contests. Pure: opens no device, imports nothing heavy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, get_type_hints

from kernels.catalog import find, problem_type
from kernels.devices import runs
from kernels.errors import UsageError
from kernels.launch import Setting
from kernels.problem import Problem

SETTINGS = {
    "device": "the device",
    "threads": "the number of threads",
    "isa": "the instruction set",
    "data": "what the operands hold",
    "heap": "the allocator's policy",
}
Role: TypeAlias = Literal["measured", "canary", "ceiling"]


@dataclass(frozen=True)
class Case:
    """One kernel on one problem in one setting, or the reason it is skipped."""

    problem: Problem
    variant: str
    setting: Setting = field(default_factory=Setting)
    role: Role = "measured"
    skip: str | None = None

    @property
    def name(self) -> str:
        """Unique in its contest, and parsed back by `parse`."""
        variant = self.variant.replace("%", "%25").replace("/", "%2F")  # a file's path parses back
        return f"{self.problem.name}/variant:{variant}/{self.setting.name}"


@dataclass(frozen=True)
class Contest:
    """Cases that answer one question and differ in one thing. `pairs`: (baseline, contender) positions."""

    name: str
    question: str
    differs: str
    cases: tuple[Case, ...]
    pairs: tuple[tuple[int, int], ...] = ()
    margin: float | None = None

    @property
    def comparisons(self) -> tuple[tuple[int, int], ...]:
        """Each case against the first, unless the contest names its pairs."""
        return self.pairs or tuple((0, i) for i in range(1, len(self.cases)))

    def __post_init__(self) -> None:
        names = [case.name for case in self.cases]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name}: two cases of one name")
        flops = {case.problem.flops for case in self.cases}
        if len(flops) > 1 and not self.differs.startswith("work: differs"):
            raise UsageError(f"{self.name}: its cases do unequal work; only a contest that says so may compare them")


@dataclass(frozen=True)
class Budget:
    """Seconds of measuring for a whole command; the half-width and the margin of a ratio."""

    seconds: float
    target: float = 0.01
    margin: float | None = None


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
    command line names neither another nor what to compare, nor an axis of `sweeping`. `others`: of further operations
    that the same command measures; the one whose axes or questions are named is meant. `data`: what operands hold,
    unless a person says otherwise. `variants` are measured by default on a CPU, `cuda` on a GPU. `useful`: the command
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
    others: tuple[Benchmark, ...] = ()
    data: str = "normal"

    @property
    def words(self) -> frozenset[str]:
        """Its axes and questions, which tell it from `others`."""
        return frozenset((*(field.name for field in fields(self.problem)), *self.questions))

    @property
    def swept(self) -> frozenset[tuple[str, str]]:
        """Operation and axis of all that has a default here."""
        return frozenset((one.problem.op, axis) for one in (self, *self.others) for axis in one.sweep)

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
    which axes a person named rather than left at their default; devices that are not here, and why; a network."""

    op: str
    axes: dict[str, tuple[Any, ...]]
    variants: tuple[str, ...]
    settings: tuple[Setting, ...]
    flags: frozenset[str]
    given: frozenset[str] = frozenset()
    absent: Mapping[str, str] = field(default_factory=dict)
    net: str = ""

    @property
    def kernels(self) -> str:
        """Which kernels its first device runs: cpu, cuda."""
        return runs(self.settings[0].device)

    def case(self, problem: Problem, variant: str, setting: Setting | None = None) -> Case:
        """The case, skipped with its reason where its device or the variant is not here, or refuses it."""
        setting = setting or self.settings[0]
        return Case(problem, variant, setting, skip=self._why_not(problem, variant, setting.device))

    def _why_not(self, problem: Problem, variant: str, device: str) -> str | None:
        row: Any = find(problem.op, variant)
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


def one_case(contests: Sequence[Contest], option: str, does: str, cannot: str) -> Case:
    """The only case of a plan, for an option that `does` ("explains") something with one. Raises UsageError."""
    cases = {case.name: case for contest in contests for case in contest.cases}
    if len(cases) != 1:
        raise UsageError(f"{option}: it {does} one case, {len(cases)} were asked for; name one --variant and size")
    (case,) = cases.values()
    if case.skip:
        raise UsageError(f"{option}: {case.name} cannot {cannot}: {case.skip}")
    return case


def values(text: str, kind: type, option: str) -> tuple[Any, ...]:
    """`5`, `1,8,64`, `64:1024:*2`, `1:9:+4`: the values of an axis. Raises UsageError."""
    found: list[Any] = []
    for word in text.split(","):
        try:
            found += _range(word, kind) if ":" in word and kind is not str else [kind(word)]
        except (ValueError, OverflowError):
            what = {int: "a whole number", float: "a number"}.get(kind, "a word")
            raise UsageError(f"{option} {text}: {word!r} is not {what}, nor a range like 64:1024:*2") from None
    if not found:
        raise UsageError(f"{option} {text}: an empty range; give first:last:step with the first below the last")
    if len(set(found)) < len(found):
        raise UsageError(f"{option} {text}: a value is named twice")
    return tuple(found)


def _range(word: str, kind: type) -> list[Any]:
    first, last, step = word.split(":")
    value, end, by = kind(first), kind(last), kind(step.lstrip("*+"))
    if (step[0] == "*" and (by <= 1 or value <= 0)) or (step[0] != "*" and by <= 0):
        raise ValueError(word)
    found = []
    while value <= end:
        found.append(value)
        value = value * by if step[0] == "*" else value + by
    return found


def problems(kind: type[Problem], axes: dict[str, tuple[Any, ...]]) -> list[Problem]:
    """The product of all axis values."""
    names = [field.name for field in fields(kind) if field.name in axes]
    combinations = itertools.product(*(axes[name] for name in names))
    return [kind(**dict(zip(names, one, strict=True))) for one in combinations]


def by_variant(asked: Asked, found: Iterable[Problem]) -> list[Contest]:
    """Without a question each problem is one contest between the variants."""
    contests = []
    for problem in found:
        cases = [asked.case(problem, v, s) for v, s in asked.pairs()]
        differs = " and ".join(["variant", *_several(asked.settings)])
        contests.append(Contest(problem.name, f"which variant is fastest at {problem.name}?", differs, tuple(cases)))
    return contests


def _several(settings: Sequence[Setting]) -> list[str]:
    """What the settings differ in."""
    return [name for name in SETTINGS if len({getattr(x, name) for x in settings}) > 1]


def along(asked: Asked, found: Sequence[Problem], field: str) -> list[Contest]:
    """`--vary FIELD`: one contest for all problems that agree in everything else, per variant and setting."""
    if field in SETTINGS:
        return _along_setting(asked, found, field)
    groups: dict[tuple[Any, ...], list[Problem]] = {}
    for problem in found:
        rest = tuple(getattr(problem, x.name) for x in fields(problem) if x.name != field)
        groups.setdefault(rest, []).append(problem)
    contests = []
    for same in groups.values():
        unequal = len({problem.flops for problem in same}) > 1
        for variant, setting in asked.pairs():
            name = f"{same[0].name}/vary:{field}/variant:{variant}/{setting.name}"
            cases = tuple(asked.case(problem, variant, setting) for problem in same)
            differs = f"work: differs ({field})" if unequal else field
            contests.append(Contest(name, f"what does {field} change for {variant}?", differs, cases))
    return contests


def _along_setting(asked: Asked, found: Sequence[Problem], field: str) -> list[Contest]:
    """One contest for all settings that agree in everything else, per problem and variant."""
    groups: dict[tuple[str, Setting], list[Setting]] = {}
    for variant, setting in asked.pairs():
        rest = replace(setting, **{field: getattr(Setting(), field)})
        groups.setdefault((variant, rest), []).append(setting)
    contests = []
    for problem in found:
        for (variant, rest), settings in groups.items():
            plain = "" if rest == Setting() else f"/{rest.name}"
            cases = tuple(asked.case(problem, variant, setting) for setting in settings)
            question = f"what does {SETTINGS[field]} change for {variant} at {problem.name}?"
            name = f"{problem.name}/vary:{field}/variant:{variant}{plain}"
            contests.append(Contest(name, question, field, cases))
    return contests


def parse(name: str) -> Case:
    """A case from its name. Raises UsageError."""
    op, *words = name.split("/")
    pairs = dict(word.split(":", 1) for word in words)
    kind = problem_type(op)
    hints = get_type_hints(kind)
    own = {x.name: hints[x.name](pairs.pop(x.name)) for x in fields(kind) if x.name in pairs}
    cold = tuple(pairs["cold"].split("+")) if "cold" in pairs else ()
    variant = pairs["variant"].replace("%2F", "/").replace("%25", "%")
    given = {key: pairs[key] for key in SETTINGS if key in pairs and key != "threads"}
    return Case(kind(**own), variant, Setting(int(pairs["threads"]), cold, **given))
