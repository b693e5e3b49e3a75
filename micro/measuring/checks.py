"""Stage 1: every case is prepared, launched and checked once per command, before any timing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.catalog import find
from kernels.devices import kind_of
from kernels.errors import BuildError, KernelError, LeftRunning, Unavailable, UsageError, WrongResult
from micro.planning.contest import PREPARE, Case, Contest
from micro.planning.options import option_of
from micro.worker import process_state
from micro.worker.check import Passed
from micro.worker.client import Client, Died, ask
from micro.worker.messages import Check, Prepare, PreparedCase
from micro.worker.process import Workers
from reports import flat, record, units

if TYPE_CHECKING:
    from kernels.devices.base import Limits
    from kernels.problem import Problem

PATIENCE, FACTOR, SLOW = 10.0, 20.0, 5e9  # seconds; × work at this many FLOP/s; CALLS of it
CALLS = 4  # most calls for a large problem: one not judged, its probes, the timed data
SLOW_BYTES = 0.5e9  # … and operands at this many bytes/s: references are in float64


def refuse_size(contests: Sequence[Contest], limits: Mapping[str, Limits]) -> None:
    """Raise UsageError, before anything is allocated, where a case cannot fit on its device."""
    for case in (case for contest in contests for case in contest.cases if case.setting.device in limits):
        need = 3 * case.problem.footprint  # the check's operands, the arenas, float64 references
        free = limits[case.setting.device].memory
        if need > free:
            raise UsageError(
                f"{case.problem.name} needs {units.binary(need)} of memory, "
                f"{units.binary(free)} are free{_smaller(case.problem)}"
            )


def _smaller(problem: Problem) -> str:
    """Format the axes to lower; empty where no axis sets the size."""
    axes = [option_of(name) for name in problem.size_axes]
    return f": take {'a ' * (len(axes) == 1)}smaller {', '.join(axes)}" if axes else ""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one case in stage 1."""

    status: record.Status
    reason: str | None = None
    prepared: PreparedCase | None = None
    passed: Passed | None = None


@dataclass(frozen=True)
class Checks:
    """Outcomes of a command's cases."""

    workers: Workers
    until: str = "time"  # last stage to run
    progress: Callable[[str], None] = lambda text: None
    evidence: Path | None = None  # folder for evidence of wrong answers
    keep_wrong: bool = False  # with their operands
    outcomes: dict[Case, Outcome] = field(default_factory=dict)
    checked_in: dict[Case, Client] = field(default_factory=dict)  # worker in which each case was right
    answered: set[tuple[Client, str, str]] = field(default_factory=set)  # worker, operation, provider
    bounded: bool = True  # time right cases beside their ceilings

    def outcome(self, case: Case, seed: int) -> Outcome:
        """Prepare, launch and check a case once in each worker; a failure costs this case only.

        A case that was right in a worker that has died may be wrong in the next one."""
        earlier = self.outcomes.get(case)
        if earlier is None or (earlier.status == "ran" and not self.holds(case)):
            outcome = self._checked(case, seed)
            if (
                outcome.reason == process_state.WORDS["cores"]
            ):  # the machine's administrator may have changed them just then
                outcome = self._checked(case, seed)
            self.outcomes[case] = outcome
        return self.outcomes[case]

    def holds(self, case: Case) -> bool:
        """Report whether a case's outcome is valid in the worker that would time it."""
        worker = self.checked_in.get(case)
        return worker is None or worker is self.workers.alive(self.workers.key(case))

    def _checked(self, case: Case, seed: int) -> Outcome:
        if case.skip:
            return Outcome("skipped", case.skip)
        if self.until == "plan":
            return Outcome("planned")
        key = self.workers.key(case)
        prepared = None
        try:
            self.progress(f"checking {flat.plain(case.name)}")
            prepared = ask(self.workers.get(key), Prepare(case), PREPARE)
            if self.until == "build":
                return Outcome("built", None, prepared)
            check = Check(case, seed, self.evidence, self.keep_wrong)
            passed = ask(self.workers.get(key), check, self._patience(case, prepared))
            self.answered.add(self._question(case))
            self.checked_in[case] = self.workers.get(key)
            return Outcome("ran", None, prepared, passed)
        except WrongResult as error:
            if isinstance(error, LeftRunning):
                self.workers.drop(key)
            return Outcome("wrong", str(error), prepared)
        except Unavailable as error:
            return Outcome("skipped", str(error))
        except BuildError as error:
            return Outcome("failed", str(error), prepared)
        except (KernelError, MemoryError) as error:
            # An error that stays with its process must not be a later case's.
            if isinstance(error, Died) or kind_of(case.setting.device).sticky:
                self.workers.drop(key)
            return Outcome("failed", str(error) or "out of memory", prepared)

    def _patience(self, case: Case, prepared: PreparedCase) -> float:
        """Seconds to wait for an answer, by its work; a provider's first answer includes loading it."""
        work = find(case.problem.op, case.variant).executed(case.problem)
        once = work.flops * prepared.uses / SLOW + case.problem.footprint / SLOW_BYTES
        first = 0.0 if self._question(case) in self.answered else kind_of(case.setting.device).first_answer
        return max(PATIENCE, first, FACTOR * CALLS * once)

    def _question(self, case: Case) -> tuple[Client, str, str]:
        """Return worker, operation and provider of a case."""
        worker = self.workers.get(self.workers.key(case))
        return worker, case.problem.op, find(case.problem.op, case.variant).provider
