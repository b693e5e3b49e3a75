"""Types of a change: when it applies, how it is made, its evidence in a process, its predicted effect."""

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
FUNCTIONS, FAULTS = "functions", "faults"  # observations of a changed process: sampled functions, page faults
Key = tuple[tuple[str, ...], str]  # rows, kind


@dataclass(frozen=True)
class Ratio:
    """Ratio of changed to unchanged time, with an interval of CONFIDENCE."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Step:
    """A step of a network in a framework with a setting, or a step of a user's program."""

    plan: Plan
    framework: Framework
    setting: Setting
    script: Script | None = None  # a user's program; the plan's network is then only a name, threads 0 the default

    @property
    def row(self) -> str:
        """Name of the framework, without a control run's suffix such as `~b`."""
        return self.framework.name.partition("~")[0]

    @property
    def trials(self) -> tuple[str, ...]:
        """Changes that the agent makes in a user's running program."""
        return tuple(self.setting.knobs.get("trials", ()))

    def has(self, kind: str) -> bool:
        """Return whether the network has a layer of this kind."""
        return any(node.layer.kind == kind for node in self.plan.network.nodes)

    @property
    def key(self) -> str:
        """Key of the step (network, framework, plan and setting) in a run file."""
        plan, setting = self.plan, self.setting
        knobs = json.dumps(setting.knobs, sort_keys=True, default=str)
        words = [plan.named, self.framework.name, f"batch {plan.batch}", plan.phase, f"{plan.generations} processes"]
        return " ".join([*words, f"threads {setting.threads} heap {setting.heap} {setting.preload} {knobs}"])

    def with_variables(self, variables: Mapping[str, str]) -> Step:
        """Return the step with these variables in its process's environment."""
        merged = {**self.setting.knobs.get("variables", {}), **variables}
        return self.with_knob("variables", merged)

    def with_knob(self, name: str, value: object) -> Step:
        """Return the step with a knob of the framework's adapter set to `value`."""
        return replace(self, setting=replace(self.setting, knobs={**self.setting.knobs, name: value}))

    def with_library(self, word: str) -> Step:
        """Return the step with one more library preloaded."""
        return replace(self, setting=replace(self.setting, preload=preload.joined(self.setting.preload, word)))

    def knob(self, name: str) -> Any:
        """Return the value of a knob of the framework's adapter, or None if unset."""
        return self.setting.knobs.get(name, self.framework.knobs.get(name))

    def refuses_knob(self, name: str, value: object, compiled: bool = False) -> str | None:
        """Return the reason why a knob of PyTorch's adapter cannot be set to `value`, or None.

        `compiled`: the knob also exists for pytorch-compile."""
        if self.row.removesuffix("-compile" if compiled else "") != "pytorch":
            return f"this suite cannot set it in {self.framework.name}"
        return "already applied" if self.knob(name) == value else None


@dataclass(frozen=True)
class ProcessSnapshot:
    """Observations of a process, without times: sampled functions, mapped files, page faults, identity."""

    symbols: Mapping[str, int]  # samples by function
    maps: str  # the process's memory map as text
    variables: Mapping[str, str]  # the process's environment
    faults: float  # mean page faults of a plain (unwatched) step; NaN: not observed
    faults_error: float  # standard error of `faults`
    identity: Mapping[str, Any]

    def flag(self, name: str) -> Any:
        """Return a flag's value as observed in what the framework built, or else as the framework reports it."""
        observed = self.identity.get("made") or {}
        return observed[name] if name in observed else self.identity.get("flags", {}).get(name)

    @property
    def threads(self) -> int:
        """Number of threads that the framework reports; 1 where it reports none."""
        count = self.identity.get("threads")
        if isinstance(count, Mapping):  # PyTorch reports intra-op and inter-op threads
            count = count.get("intra-op")
        return count if isinstance(count, int) else 1


@dataclass(frozen=True)
class BaselineProfile(ProcessSnapshot):
    """Profile of the unchanged step: its observations, times by cell and problems by row."""

    side: Side  # the watched process, with the products that its libraries log
    seconds: float = 0.0  # of a plain step
    system: float = 0.0  # seconds of a plain step in the operating system
    cells: Mapping[Key, float] = field(default_factory=dict)  # seconds by rows and kind
    rows: Mapping[str, Row] = field(default_factory=dict)  # of the network, by name
    huge: float | None = None  # share of the process's memory in huge pages; None: unknown
    spread: float = 0.0  # error of one round in seconds, at CONFIDENCE
    edits: Mapping[str, tuple[str, float]] = field(default_factory=dict)  # by name: code, most seconds saved
    between: float = 0.0  # error of a difference between a changed and two unchanged processes, as a share of a step
    tried: Mapping[str, Ratio | str] = field(default_factory=dict)  # by trial in a running program; or why not known

    def kinds(self, *names: str) -> float:
        """Return the seconds of a step in these kinds of work."""
        return sum(seconds for (_, kind), seconds in self.cells.items() if kind in names)


class Part(NamedTuple):
    """A part of a prediction: the change of a step's seconds by `what`, with an interval of CONFIDENCE."""

    what: str
    seconds: float  # changed less unchanged
    low: float
    high: float
    of: float = 0.0  # unchanged seconds of these kernels, which a combined change may scale too; 0: unknown


class Forecast(NamedTuple):
    """Predicted effect of a change as a sum of parts, or the reason (`why`) why it is not predictable."""

    parts: tuple[Part, ...] = ()
    why: str | None = None


class Effect(NamedTuple):
    """Result of checking whether a change is there in the process, with the evidence in words."""

    there: bool
    evidence: str


@dataclass(frozen=True)
class PredictionInput:
    """Inputs of a change's prediction: both steps and what was observed of them."""

    before: BaselineProfile
    after: ProcessSnapshot
    unchanged: Step
    changed: Step
    alone: float  # budget in seconds for measuring isolated kernels

    @property
    def threads(self) -> int:
        """Threads of the unchanged step."""
        return self.unchanged.setting.threads or self.before.threads


@dataclass(frozen=True)
class Change:
    """A change of a setting, a library, a layout or a call, with its check and its prediction."""

    name: str
    about: str  # one line for the list of changes
    applies: Callable[[Step, str], str | None]  # returns why it does not apply to the step at this value, or None
    make: Callable[[Step, str], Step]  # returns the changed step
    took: Callable[[BaselineProfile, ProcessSnapshot], Effect]  # checks whether the change is there in the process
    brings: Callable[[PredictionInput], Forecast]  # predicts its effect; may raise SuiteError
    takes: str | None = None  # an example of the value after `=`; None: no value
    costs: str = "nothing"  # disadvantages other than time, in words
    code: str = ""  # edit of a program that makes the change; empty: a variable does
    trial: str = ""  # trial of a user's running program that predicts it ({}: the value) and makes `code`; empty: none
    saves: tuple[str, ...] = ()  # the only kinds of work that it can save; empty: any
    measures: tuple[str, ...] = ()  # kinds whose kernels `brings` measures; empty: those of `saves`
    memory: bool = False  # it changes allocations, so a change of page faults is added to the forecast
    looks: Sequence[str] = (FUNCTIONS, FAULTS)  # observed in a changed process; page faults are NaN without FAULTS
    alone: bool = True  # its prediction measures isolated kernels
    tries: Callable[[Step], Sequence[str]] = lambda step: ("",)  # values that `advise` tries
