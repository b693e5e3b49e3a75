"""Kernels of one worker process: prepared, checked against float64, traced for their names."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.catalog import find, is_user
from kernels.errors import LeftRunning, Unavailable, WrongResult
from kernels.isa import refusal as refuse_isa
from kernels.variant import Variant
from kernels.workspace import enough
from micro.planning.contest import Case
from micro.worker import check as checking
from micro.worker import evidence as worker_evidence
from micro.worker import guards, process_state
from micro.worker.messages import PreparedCase
from micro.worker.turns import Drawn
from reports import units

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.launch import Bind
    from kernels.problem import Problem

KEPT = 4 << 30  # most bytes of inputs that are cached for rivals on the same problem
DEAR, LARGE = 1e9, 64 << 20  # on a processor: least FLOP and most bytes of problems with cached inputs


def refuse_uses(case: Case, uses: object) -> None:
    """Raise WrongResult for an impossible number of uses, by which a launch's time is divided.

    Only the suite's variants may claim several: an answer does not show how often it was computed."""
    if type(uses) is not int or uses < 1:
        raise WrongResult(f"claims {uses} uses per call: `uses` must be a positive whole number")
    if uses > 1 and is_user(case.problem.op, case.variant):
        raise WrongResult(f"claims {uses} uses per call: a user's kernel has one use per call")


def refuse_workspace(case: Case, held: int) -> None:
    """Raise Unavailable if a launch holds more workspace than the case's setting allows."""
    limit = case.setting.workspace
    if limit is not None and held > limit:
        raise Unavailable(f"needs {units.binary(held)} of workspace: --workspace {enough(held)} or more")


class Kernels:
    """Kernels of one device; prepared cases stay until their contest is closed."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._binds: dict[Case, list[tuple[Variant[Any], Bind, int]]] = {}
        self._complete: dict[Case, Bind] = {}
        self._pilot: dict[Case, float] = {}
        self._evidence: dict[Case, tuple[int, Path | None, bool]] = {}
        self._drawn: dict[tuple[Problem, int, tuple[str, ...]], Drawn] = {}
        self._threads: dict[Case, tuple[str, ...]] = {}
        self.cell = 0  # address of the cell that holds the case under way; 0: no other process reads it

    def prepare(self, case: Case) -> PreparedCase:
        """Compile, plan, pack and allocate for a case. Raises whatever the kernel raises."""
        bench = guards.Bench(self.device, case.problem)  # allocated first, as operands are no part of the setup
        began, before = time.perf_counter(), process_state.take()
        self._threads[case] = process_state.threads()
        variant = self.device.adopt(find(case.problem.op, case.variant))
        bind = variant.prepare(case.problem, self.device, case.setting)
        self._complete[case] = bind
        launch = bind(bench.views)
        refuse_uses(case, launch.uses)
        refuse_workspace(case, launch.workspace)
        self._binds[case] = [(variant, bind, launch.uses)]
        if parts := variant.parts(case.problem):
            self._binds[case] = [
                (part, part.prepare(case.problem, self.device, case.setting), uses) for part, uses in parts
            ]
        kernel, isa = launch.kernel or variant.kernel()
        loaded = process_state.take()
        expected = process_state.but_for_loading(before, loaded)
        process_state.restore(before)
        if changes := process_state.state_changes(expected, loaded):
            raise WrongResult("; ".join(changes))
        if refusal := refuse_isa(case.setting.isa, kernel, isa):
            raise Unavailable(refusal)
        return PreparedCase(time.perf_counter() - began, launch.uses, launch.workspace, kernel, isa)

    def check(self, case: Case, seed: int, evidence: Path | None = None, keep: bool = False) -> checking.Passed:
        """Check a case against float64 and return its worst error.

        Raises WrongResult, after writing evidence to the folder `evidence`, if given; `keep`: with the operands."""
        variant = self.device.adopt(find(case.problem.op, case.variant))
        if case not in self._complete:
            self.prepare(case)
        bind = self._complete[case]
        self._evidence[case] = seed, evidence, keep
        if evidence is not None:
            worker_evidence.clear(evidence, case)
        drawn = self._inputs(case.problem.drawn, seed, variant.constant)
        try:
            asked = checking.Asked(drawn, case.setting.data, self.cell)
            passed, self._pilot[case] = checking.check(self.device, case.problem, variant, bind, seed, asked)
            self._refuse_helpers(case)
        except WrongResult as error:
            self.leave(case, error)
            raise
        return passed

    def _refuse_helpers(self, case: Case) -> None:
        """Raise LeftRunning if threads started by a one-thread case keep running after its call."""
        here = self.device.kind.compiled and not self.device.kind.scripted
        new = Counter(process_state.threads()) - Counter(self._threads[case])
        if new and here and case.setting.threads == 1 and process_state.at_work():
            raise LeftRunning(f"leaves threads running after its call: {', '.join(sorted(new.elements()))}")

    def leave(self, case: Case, error: WrongResult) -> None:
        """Write the evidence of a wrong answer to the folder that was given when the case was checked."""
        seed, folder, keep = self._evidence.get(case, (0, None, False))
        if folder is not None and error.evidence is not None:
            with suppress(OSError):  # no room for it: the kernel is wrong all the same
                worker_evidence.write(folder, case, seed, str(error), error.evidence, keep)

    def _inputs(self, problem: Problem, seed: int, constant: tuple[str, ...]) -> Drawn | None:
        """Return the inputs of a problem, cached for its rivals; None if they are not worth caching.

        With a GPU, cached problems take up to KEPT bytes. On a CPU, where the cache shares memory with the operands,
        only the last problem is cached, and none with a cheap reference or large operands."""
        alone = self.device.kind.compiled
        if alone and (problem.flops < DEAR or problem.footprint > LARGE):
            return None
        key = problem, seed, constant
        drawn = self._drawn.pop(key, None) or Drawn(*key)
        self._drawn[key] = drawn
        many = max(2, len(problem.probes))
        room = 0 if alone else KEPT
        while len(self._drawn) > 1 and sum(each[0].footprint for each in self._drawn) * many > room:
            del self._drawn[next(iter(self._drawn))]
        return drawn

    def names(self, cases: Sequence[Case]) -> list[tuple[str, ...]]:
        """Return the device's names of the kernels that a launch of each case runs; () if it cannot trace.

        After a trace this process must time nothing."""
        device: Any = self.device
        if not hasattr(device, "names"):
            return [() for _ in cases]
        calls = []
        for case in cases:
            if case not in self._complete:
                self.prepare(case)
            bench = guards.Bench(device, case.problem)
            launch = self._complete[case](bench.views)
            launch.call()  # so that the trace has no loading or compiling
            calls.append(launch.call)
        device.sync()
        names: list[tuple[str, ...]] = device.names(calls)
        return names

    def prepared(self, case: Case) -> bool:
        """Report whether a case is prepared, and its contest not yet closed."""
        return case in self._binds

    def binds(self, case: Case) -> list[tuple[Variant[Any], Bind, int]]:
        """Return (variant, bind, uses per launch) of a prepared case, or of each part timed in its place."""
        return self._binds[case]

    def in_parts(self, case: Case) -> bool:
        """Report whether parts of a prepared case are timed in place of the checked call."""
        return all(bind is not self._complete[case] for _, bind, _ in self.binds(case))

    def checked(self, case: Case) -> float | None:
        """Seconds of the launch that checked the case; None if it was not checked."""
        return self._pilot.get(case)

    def close(self) -> None:
        """Release a contest's cases and what they hold."""
        self._binds.clear()
        self._complete.clear()
        self._pilot.clear()
