"""Parts of a change: when it applies, how it is made, its evidence in a process, its predicted effect."""

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
ERRORS = 1.645  # standard errors on each side of that interval
FUNCTIONS, FAULTS = "functions", "faults"  # what a changed process may be watched for
Key = tuple[tuple[str, ...], str]  # rows, kind


@dataclass(frozen=True)
class Step:
    """A step of a network in a framework, in one setting, or of a user's program."""

    plan: Plan
    framework: Framework
    setting: Setting
    script: Script | None = None  # the program; its plan's network is a mere name, its threads 0 by default

    @property
    def row(self) -> str:
        """Name of the framework's row, without a control run's suffix."""
        return self.framework.name.partition("~")[0]

    def has(self, kind: str) -> bool:
        """Return whether the network has a layer of this kind."""
        return any(node.layer.kind == kind for node in self.plan.network.nodes)

    @property
    def key(self) -> str:
        """Key of network, framework and setting in a run file."""
        plan, setting = self.plan, self.setting
        knobs = json.dumps(setting.knobs, sort_keys=True, default=str)
        words = [plan.named, self.framework.name, f"batch {plan.batch}", plan.phase, f"{plan.generations} processes"]
        return " ".join([*words, f"threads {setting.threads} heap {setting.heap} {setting.preload} {knobs}"])

    def with_variables(self, variables: Mapping[str, str]) -> Step:
        """Return the step with these variables in its process's environment."""
        merged = {**self.setting.knobs.get("variables", {}), **variables}
        return self.with_knob("variables", merged)

    def with_knob(self, name: str, value: object) -> Step:
        """Return the step with an adapter's knob at `value`."""
        return replace(self, setting=replace(self.setting, knobs={**self.setting.knobs, name: value}))

    def with_library(self, word: str) -> Step:
        """Return the step with one more library preloaded."""
        return replace(self, setting=replace(self.setting, preload=preload.joined(self.setting.preload, word)))

    def knob(self, name: str) -> Any:
        """Return the value of an adapter's knob."""
        return self.setting.knobs.get(name, self.framework.knobs.get(name))

    def refuses_knob(self, name: str, value: object, compiled: bool = False) -> str | None:
        """Return the reason why a knob of PyTorch's adapter cannot be set to `value`, or None.

        `compiled`: the compiled row has the knob too."""
        if self.row.removesuffix("-compile" if compiled else "") != "pytorch":
            return f"no switch of {self.framework.name}'s is known here"
        return "it is made already" if self.knob(name) == value else None


@dataclass(frozen=True)
class ProcessSnapshot:
    """Observations of a process in traced steps, without its clocks."""

    symbols: Mapping[str, int]  # samples by function
    maps: str  # the files that it has mapped
    variables: Mapping[str, str]  # its environment
    faults: float  # page faults of a plain step
    faults_error: float  # their standard error
    identity: Mapping[str, Any]

    def flag(self, name: str) -> Any:
        """Return what a framework built, where its adapter can observe it; otherwise the flag that it reports."""
        observed = self.identity.get("made") or {}
        return observed[name] if name in observed else self.identity.get("flags", {}).get(name)

    @property
    def threads(self) -> int:
        """Number of threads that the framework reports; 1 where it reports none."""
        count = self.identity.get("threads")
        if isinstance(count, Mapping):  # PyTorch's
            count = count.get("intra-op")
        return count if isinstance(count, int) else 1


@dataclass(frozen=True)
class BaselineProfile(ProcessSnapshot):
    """The unchanged step, watched."""

    side: Side  # the watched process, with the products that its libraries log
    seconds: float = 0.0  # of a plain step
    system: float = 0.0  # … in the operating system
    cells: Mapping[Key, float] = field(default_factory=dict)  # seconds by rows and kind
    rows: Mapping[str, Row] = field(default_factory=dict)  # of the network, by name
    huge: float | None = None  # share of its memory in huge pages, if known
    spread: float = 0.0  # error of one round in seconds, at CONFIDENCE
    edits: Mapping[str, tuple[str, float]] = field(default_factory=dict)  # of a program: code, most seconds saved

    def kinds(self, *names: str) -> float:
        """Return the seconds of all cells of these kinds."""
        return sum(seconds for (_, kind), seconds in self.cells.items() if kind in names)


class Part(NamedTuple):
    """A part of a prediction: the change of a step's seconds, with an interval of CONFIDENCE."""

    what: str
    seconds: float  # changed less unchanged
    low: float
    high: float
    of: float = 0.0  # unchanged seconds, of which another change may take a share too


class Forecast(NamedTuple):
    """Predicted effect of a change, part by part, or the reason why there is none."""

    parts: tuple[Part, ...] = ()
    why: str | None = None


class Effect(NamedTuple):
    """Evidence that a change is in the process, or is not."""

    there: bool
    evidence: str


@dataclass(frozen=True)
class PredictionInput:
    """Inputs of a prediction."""

    before: BaselineProfile
    after: ProcessSnapshot
    unchanged: Step
    changed: Step
    alone: float  # seconds for kernels measured by themselves

    @property
    def threads(self) -> int:
        """Threads of the unchanged step."""
        return self.unchanged.setting.threads or self.before.threads


@dataclass(frozen=True)
class Change:
    """One change of a setting, a library, a layout or a call."""

    name: str
    about: str
    applies: Callable[[Step, str], str | None]  # the reason why not, or None
    make: Callable[[Step, str], Step]
    took: Callable[[BaselineProfile, ProcessSnapshot], Effect]
    brings: Callable[[PredictionInput], Forecast]  # may raise SuiteError
    takes: str | None = None  # the value behind its `=`, in words
    costs: str = "nothing"  # beside the time
    code: str = ""  # written into a program, where no variable makes the change
    saves: tuple[str, ...] = ()  # the only kinds of work that it can save
    measures: tuple[str, ...] = ()  # kinds whose kernels `brings` measures, where they are not `saves`
    memory: bool = False  # it allocates other memory: page faults that come or go add to what it brings
    looks: Sequence[str] = (FUNCTIONS, FAULTS)  # watched in a changed process; page faults are NaN without FAULTS
    alone: bool = True  # kernels are measured by themselves for it
    tries: Callable[[Step], Sequence[str]] = lambda step: ("",)  # values at which `advise` tries it
