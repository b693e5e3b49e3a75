"""Entries that take turns: frameworks in their settings, in one phase of a network."""

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

FEWEST = 6  # rounds of a generation; one with fewer does not count
TWIN = "unchanged"  # the change of a control run
WARM = 2  # steps before the first block
HANGS = 60.0  # seconds a block may take at least
ALIKE = 2.0  # ratio of two steps up to which both are timed alike
COMPARED = 0.5  # seconds of an unchanged step from which on the first of a turn counts, of changed ones too
LONG = 1.0  # seconds: in a step of so many a cold cache and memory given back are a small part


@dataclass
class Entry:
    """One framework in one setting, and its results."""

    framework: Framework
    setting: Setting
    identity: dict[str, Any] = field(default_factory=dict)
    built: dict[str, Any] = field(default_factory=dict)
    setup: list[float] = field(default_factory=list)
    blocks: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)  # generation, round, figures
    status: str = "ok"
    reason: str | None = None
    process: Process | None = None
    change: str = ""  # of the unchanged step, in words
    again: str = ""  # the line that measures it again, where that is another than `macro run`
    batch: int | None = None  # samples of its steps, where it is not the plan's
    count: int = 1
    ended: str = ""  # why no more of its steps are wanted
    long: bool = False  # whether the first step of a turn counts
    peak: int = 0  # bytes that its process had in memory at most, after its first steps
    warm: float = 1.0  # seconds of the fastest of these
    proof: str | None = None  # what its equal work was proven against

    def fail(self, error: SuiteError) -> None:
        """Keep the error; no process is left. A kernel's error is a failure, any other a reason to skip it."""
        self.status = "failed" if isinstance(error, KernelError) else "skipped"
        self.reason, self.process = str(error), None


@dataclass(frozen=True)
class Plan:
    """A network's phase that is run in several entries."""

    network: Network
    batch: int
    phase: str
    seconds: float
    generations: int
    seed: int = 0
    first: int = 0  # number of its first generation, in a run taken up again
    ended: int = 0  # generations that had ended in it; one that was killed is not among them
    asked: str = ""  # the network as a command names it
    fewest: int = FEWEST  # rounds of a generation
    counted: float = COMPARED  # seconds of a step from which on the first of a turn counts

    def place(self, generation: int) -> str:
        """Return the position of a generation among all that were requested."""
        return f"generation {generation - self.first + self.ended + 1} of {self.ended + self.generations}"

    @property
    def named(self) -> str:
        """Name of the network, as a word of a shell."""
        return shlex.quote(self.asked or self.network.name)


@dataclass(frozen=True)
class Taken:
    """A round that has ended."""

    generation: int
    number: int  # in its generation
    seconds: float  # of the generation's rounds so far
    ended: bool  # whether its generation ended with it


def begin(plan: Plan, entry: Entry, setting: Setting, folder: Path, stack: ExitStack) -> Process:
    """Start an entry's process and wait until it is built; its identity goes to the entry. Raises SuiteError."""
    job = job_files.write(entry.framework, plan.network, entry.batch or plan.batch, setting, folder)
    process = stack.enter_context(Process(entry.framework, job, setting, job.with_suffix(".log")))
    hello = process.expect("hello")
    if entry.framework.chooses and entry.identity and hello.get("flags") != entry.identity.get("flags"):
        raise LaunchError(f"{entry.framework.name} has chosen other kernels than those that were proven: run it again")
    entry.identity, entry.built = hello, process.expect("built")
    return process
