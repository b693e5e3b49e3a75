"""Entries that are timed in turns: frameworks with their settings, in a phase of a network."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels.errors import KernelError, LaunchError, SuiteError
from macro.frameworks import Framework
from macro.networks.base import Network
from macro.processes import job as job_files
from macro.processes.job import Setting
from macro.processes.process import Process

FEWEST = 6  # rounds of a generation; a generation with fewer does not count
TWIN = "unchanged"  # name of the change that changes nothing: the control run
WARM = 2  # steps before the first block
HANGS = 60.0  # least timeout of a block in seconds
ALIKE = 2.0  # ratio of two steps' times up to which both count the first step of a turn, or neither
COMPARED = 0.5  # from so many seconds of an unchanged step on, the first step of a turn counts, changed steps included
LONG = 1.0  # seconds of a step of which a cold cache and returned memory are a small share


@dataclass
class Entry:
    """A framework with a setting (threads, heap, device), its process and its timed blocks."""

    framework: Framework
    setting: Setting
    identity: dict[str, Any] = field(default_factory=dict)
    built: dict[str, Any] = field(default_factory=dict)
    setup: list[float] = field(default_factory=list)
    blocks: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)  # generation, round, figures
    status: str = "ok"
    reason: str | None = None
    process: Process | None = None
    change: str = ""  # applied to the unchanged step, in words; empty: none
    again: str = ""  # the command that measures it again, if not `macro run`
    batch: int | None = None  # batch size of its steps; None: the plan's
    count: int = 1  # steps of a block
    ended: str = ""  # why no more of its steps are needed; empty: they are
    long: bool = False  # whether the first step of a turn counts
    peak: int = 0  # most bytes that its process had in memory
    warm: float = 1.0  # seconds of the fastest warm-up step
    proof: str | None = None  # the reference that its equal work was verified against

    def fail(self, error: SuiteError) -> None:
        """Set the status from an error: failed for a KernelError, skipped for others; forget the process."""
        self.status = "failed" if isinstance(error, KernelError) else "skipped"
        self.reason, self.process = str(error), None


@dataclass(frozen=True)
class Plan:
    """A network's phase to be timed in several entries, with batch, budget and number of generations."""

    network: Network
    batch: int
    phase: str
    seconds: float  # budget of all generations
    generations: int  # each starts new processes
    seed: int = 0
    first: int = 0  # number of its first generation; above 0 in a resumed run
    ended: int = 0  # generations that ended before the run was resumed, without a killed generation
    asked: str = ""  # the network as the command names it
    fewest: int = FEWEST  # rounds of a generation at least
    counted: float = COMPARED  # from so many seconds of a step on, the first step of a turn counts

    def place(self, generation: int) -> str:
        """Format a generation's position among all requested, such as `generation 2 of 5`."""
        return f"generation {generation - self.first + self.ended + 1} of {self.ended + self.generations}"

    @property
    def named(self) -> str:
        """Name of the network, quoted for a shell."""
        return shlex.quote(self.asked or self.network.name)


@dataclass(frozen=True)
class Taken:
    """A round that has ended."""

    generation: int
    number: int  # in its generation, from 0
    seconds: float  # of the generation's rounds so far
    ended: bool  # whether the generation ended with this round


def is_reported(number: int) -> bool:
    """Return whether progress after so many rounds is reported: 1, 2, 4, 8 and so on."""
    return not number & number - 1


def begin(plan: Plan, entry: Entry, setting: Setting, folder: Path, stack: ExitStack) -> Process:
    """Start an entry's process, wait until its network is built, and set the identity. Raises SuiteError."""
    job = job_files.write(entry.framework, plan.network, entry.batch or plan.batch, setting, folder)
    process = stack.enter_context(Process(entry.framework, job, setting, job.with_suffix(".log")))
    hello = process.expect("hello")
    if entry.framework.chooses and entry.identity and hello.get("flags") != entry.identity.get("flags"):
        raise LaunchError(f"{entry.framework.name} has chosen other kernels than in its proof: run the command again")
    entry.identity, entry.built = hello, process.expect("built")
    return process
