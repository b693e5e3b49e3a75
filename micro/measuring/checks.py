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

PATIENCE, FACTOR, SLOW = 10.0, 20.0, 5e9  # least seconds to wait; factor on the time of CALLS calls at SLOW FLOP/s
CALLS = 4  # most calls for a large problem: one not judged, its probes, the timed data
SLOW_BYTES = 0.5e9  # bytes/s assumed for operands, as references are in float64


def refuse_size(contests: Sequence[Contest], limits: Mapping[str, Limits]) -> None:
    """Raise UsageError, before anything is allocated, where a case cannot fit into its device's memory."""
    for case in (case for contest in contests for case in contest.cases if case.setting.device in limits):
        need = 3 * case.problem.footprint  # the check's operands, the arenas, float64 references
        free = limits[case.setting.device].memory
        if need > free:
            raise UsageError(
                f"{case.problem.name} needs {units.binary(need)} of memory, "
                f"only {units.binary(free)} are free{_smaller(case.problem)}"
            )


def _smaller(problem: Problem) -> str:
    """Format advice on the axes to lower; empty if no axis sets the size."""
    axes = [option_of(name) for name in problem.size_axes]
    return f": take {'a ' * (len(axes) == 1)}smaller {', '.join(axes)}" if axes else ""


@dataclass(frozen=True)
class Outcome:
    """Outcome of preparing and checking one case, in stage 1."""

    status: record.Status
    reason: str | None = None
    prepared: PreparedCase | None = None
    passed: Passed | None = None


@dataclass(frozen=True)
class Checks:
    """Stage 1 of a command: prepares and checks cases, and keeps their outcomes."""

    workers: Workers
    until: str = "time"  # last stage to run
    progress: Callable[[str], None] = lambda text: None
    evidence: Path | None = None  # folder for evidence of wrong answers
    keep_wrong: bool = False  # write the operands of wrong answers too
    outcomes: dict[Case, Outcome] = field(default_factory=dict)
    checked_in: dict[Case, Client] = field(default_factory=dict)  # worker in which each case was right
    answered: set[tuple[Client, str, str]] = field(default_factory=set)  # (worker, operation, provider) with an answer
    bounded: bool = True  # time cases beside their ceilings

    def outcome(self, case: Case, seed: int) -> Outcome:
        """Return a case's outcome; prepare and check the case once in each worker.

        A case that was right in a worker that has died is checked again, as it may be wrong in the next worker."""
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
        """Report whether a case was right in the worker that is to time it, or in no worker at all."""
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
        """Return the seconds to wait for a check, by its work; the first check loads the provider."""
        work = find(case.problem.op, case.variant).executed(case.problem)
        once = work.flops * prepared.uses / SLOW + case.problem.footprint / SLOW_BYTES
        first = 0.0 if self._question(case) in self.answered else kind_of(case.setting.device).first_answer
        return max(PATIENCE, first, FACTOR * CALLS * once)

    def _question(self, case: Case) -> tuple[Client, str, str]:
        """Return the worker, operation and provider of a case, which share one first answer."""
        worker = self.workers.get(self.workers.key(case))
        return worker, case.problem.op, find(case.problem.op, case.variant).provider
