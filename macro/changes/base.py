"""What a change is: when it applies, how it is made, what shows that it took effect, what it should bring."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kernels.libs import preload
from macro.explaining.rows import Row
from macro.frameworks import Framework
from macro.processes.job import Setting
from macro.timing.entry import Plan
from macro.watching.script import Script
from macro.watching.watch import Side

CONFIDENCE = 0.9  # of the interval of a prediction
ERRORS = 1.645  # standard errors that this is on each side
FUNCTIONS, FAULTS = "functions", "faults"  # what a changed process may be looked at for
Key = tuple[tuple[str, ...], str]  # rows, kind


@dataclass(frozen=True)
class Step:
    """A step of a network in a framework, in one setting; or of a program of a user's own, `script`, whose plan's
    network is no more than a name, and whose threads are 0 where it has its own."""

    plan: Plan
    framework: Framework
    setting: Setting
    script: Script | None = None

    @property
    def row(self) -> str:
        """The framework's, whichever twin it is."""
        return self.framework.name.partition("~")[0]

    def has(self, kind: str) -> bool:
        """Whether the network has a layer of this kind."""
        return any(node.layer.kind == kind for node in self.plan.network.nodes)

    @property
    def key(self) -> str:
        """Network, framework and setting, as a run file knows them by."""
        plan, setting = self.plan, self.setting
        knobs = json.dumps(setting.knobs, sort_keys=True, default=str)
        words = [plan.named, self.framework.name, f"batch {plan.batch}", plan.phase, f"{plan.generations} processes"]
        return " ".join([*words, f"threads {setting.threads} heap {setting.heap} {setting.preload} {knobs}"])

    def with_variables(self, variables: Mapping[str, str]) -> Step:
        """With these in its process's environment."""
        merged = {**self.setting.knobs.get("variables", {}), **variables}
        return self.with_knob("variables", merged)

    def with_knob(self, name: str, value: object) -> Step:
        """With an adapter's knob at this."""
        return replace(self, setting=replace(self.setting, knobs={**self.setting.knobs, name: value}))

    def with_library(self, word: str) -> Step:
        """With one more loaded before its own libraries."""
        return replace(self, setting=replace(self.setting, preload=preload.joined(self.setting.preload, word)))

    def knob(self, name: str) -> Any:
        """What an adapter's knob is at."""
        return self.setting.knobs.get(name, self.framework.knobs.get(name))


@dataclass(frozen=True)
class Seen:
    """What traced steps show of a process, without its clocks. `symbols`: samples by the function they were in; `maps`:
    the files it has mapped; `variables`: of its environment; `faults`: page faults of a plain step, and the standard
    error of that."""

    symbols: Mapping[str, int]
    maps: str
    variables: Mapping[str, str]
    faults: float
    faults_error: float
    identity: Mapping[str, Any]

    def flag(self, name: str) -> Any:
        """What a framework made, where it can look; else what it says it was told."""
        observed = self.identity.get("made") or {}
        return observed[name] if name in observed else self.identity.get("flags", {}).get(name)

    @property
    def threads(self) -> int:
        """That it says it has; 1 where it does not say."""
        count = self.identity.get("threads")
        if isinstance(count, Mapping):  # PyTorch's
            count = count.get("intra-op")
        return count if isinstance(count, int) else 1


@dataclass(frozen=True)
class Before(Seen):
    """The unchanged step, watched. `seconds` of a plain one, and of them the operating system's; `cells`: seconds by
    rows and kind; `rows` of the network by name; `side`: who was watched, with the products that its libraries log;
    `huge`: the share of its own memory that lies in huge pages, where that is known; `spread`: by how many seconds
    one round of it is off, as CONFIDENCE has it; `edits` of a program by name: what is written into it, and the seconds
    that it saves at most."""

    side: Side
    seconds: float = 0.0
    system: float = 0.0
    cells: Mapping[Key, float] = field(default_factory=dict)
    rows: Mapping[str, Row] = field(default_factory=dict)
    huge: float | None = None
    spread: float = 0.0
    edits: Mapping[str, tuple[str, float]] = field(default_factory=dict)

    def kinds(self, *names: str) -> float:
        """Seconds of all cells of these kinds."""
        return sum(seconds for (_, kind), seconds in self.cells.items() if kind in names)


class Part(NamedTuple):
    """A part of a prediction: seconds of a step, changed less unchanged, with an interval of CONFIDENCE; `of`: what it
    takes unchanged, where another change may take another share of it."""

    what: str
    seconds: float
    low: float
    high: float
    of: float = 0.0


class Forecast(NamedTuple):
    """What a change should bring, part by part; or why nobody can say."""

    parts: tuple[Part, ...] = ()
    why: str | None = None


class Effect(NamedTuple):
    """Whether a change is in the process, and what shows it."""

    there: bool
    evidence: str


@dataclass(frozen=True)
class Asked:
    """What a prediction is made from. `alone`: seconds that kernels measured by themselves may take."""

    before: Before
    after: Seen
    unchanged: Step
    changed: Step
    alone: float

    @property
    def threads(self) -> int:
        """Of the unchanged step."""
        return self.unchanged.setting.threads or self.before.threads


def _once(step: Step) -> Sequence[str]:
    return ("",)


@dataclass(frozen=True)
class Change:
    """One change of a setting, a library, a layout or a call. `takes`: what stands behind its `=`, in words; `costs`:
    what it changes beside the time; `code`: what is written into a program, where no variable does it; `saves`: the
    kinds of work that it can save at most; `measures`: those whose kernels `brings` measures, where they are others;
    `memory`: other memory is allocated with it, so that page faults which come or go are its own, beside what it
    brings; `looks`: what a changed process is watched for beside what it says, the functions that run, its page faults,
    which are NaN where they are not looked at; `alone`: kernels are measured by themselves for it; `tries`: the values
    at which `advise` has it. `applies` gives the reason why not, or None; `brings` may raise SuiteError."""

    name: str
    about: str
    applies: Callable[[Step, str], str | None]
    make: Callable[[Step, str], Step]
    took: Callable[[Before, Seen], Effect]
    brings: Callable[[Asked], Forecast]
    takes: str | None = None
    costs: str = "nothing"
    code: str = ""
    saves: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    memory: bool = False
    looks: Sequence[str] = (FUNCTIONS, FAULTS)
    alone: bool = True
    tries: Callable[[Step], Sequence[str]] = _once
