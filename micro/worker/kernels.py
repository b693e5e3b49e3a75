"""Kernels of one process: compiled, checked against float64, named; before and after they are timed."""

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

KEPT = 4 << 30  # bytes of problems whose inputs are cached for the next rival
DEAR, LARGE = 1e9, 64 << 20  # on a processor: least FLOP and most bytes of problems with cached inputs


def refuse_uses(case: Case, uses: object) -> None:
    """Raise WrongResult for an impossible number of uses, by which a launch's time is divided.

    Only the suite's variants may have several uses per launch: no answer shows how often it was computed."""
    if type(uses) is not int or uses < 1:
        raise WrongResult(f"claims {uses} uses of one call: a whole number, or leave `uses` out")
    if uses > 1 and is_user(case.problem.op, case.variant):
        raise WrongResult(f"claims {uses} uses of one call: of a user's kernel one call is one use")


def refuse_workspace(case: Case, held: int) -> None:
    """Raise Unavailable where a launch holds more bytes than its setting allows."""
    limit = case.setting.workspace
    if limit is not None and held > limit:
        raise Unavailable(f"it holds {units.binary(held)} beside its operands: --workspace {enough(held)} or more")


class Kernels:
    """Kernels of one device; what is prepared stays until its contest is closed."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._binds: dict[Case, list[tuple[Variant[Any], Bind, int]]] = {}
        self._complete: dict[Case, Bind] = {}
        self._pilot: dict[Case, float] = {}
        self._evidence: dict[Case, tuple[int, Path | None, bool]] = {}
        self._drawn: dict[tuple[Problem, int, tuple[str, ...]], Drawn] = {}
        self._threads: dict[Case, tuple[str, ...]] = {}
        self.cell = 0  # address of the cell that names what is under way; 0: there is no watcher

    def prepare(self, case: Case) -> PreparedCase:
        """Compile, plan, pack, allocate. Raises whatever the kernel raises."""
        bench = guards.Bench(self.device, case.problem)  # the operands are no part of what it sets up
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
        """Compare one launch for each probe with float64.

        Raises WrongResult, after writing its evidence to a folder, if one is given; `keep`: with operands."""
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
        """Raise LeftRunning where threads that came with a case of one thread run on after it."""
        here = self.device.kind.compiled and not self.device.kind.scripted
        new = Counter(process_state.threads()) - Counter(self._threads[case])
        if new and here and case.setting.threads == 1 and process_state.at_work():
            raise LeftRunning(f"leaves threads at work after its call: {', '.join(sorted(new.elements()))}")

    def leave(self, case: Case, error: WrongResult) -> None:
        """Write the evidence of a wrong answer to the folder given at its check."""
        seed, folder, keep = self._evidence.get(case, (0, None, False))
        if folder is not None and error.evidence is not None:
            with suppress(OSError):  # no room for it: the kernel is wrong all the same
                worker_evidence.write(folder, case, seed, str(error), error.evidence, keep)

    def _inputs(self, problem: Problem, seed: int, constant: tuple[str, ...]) -> Drawn | None:
        """Return cached inputs of a problem, shared by its rivals; as many problems as KEPT bytes hold.

        On a processor, whose memory operands share, only the last problem's inputs are cached, and none where the
        reference is cheap or room is scarce."""
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
        """Return the device's names of the kernels of one launch of each case.

        The launch is traced: this process must time nothing afterwards."""
        device: Any = self.device
        if not hasattr(device, "names"):
            return [() for _ in cases]
        calls = []
        for case in cases:
            if case not in self._complete:
                self.prepare(case)
            bench = guards.Bench(device, case.problem)
            launch = self._complete[case](bench.views)
            launch.call()  # what it loads or compiles at its first call is not part of it
            calls.append(launch.call)
        device.sync()
        names: list[tuple[str, ...]] = device.names(calls)
        return names

    def prepared(self, case: Case) -> bool:
        """Report whether a case is prepared, until its contest is closed."""
        return case in self._binds

    def binds(self, case: Case) -> list[tuple[Variant[Any], Bind, int]]:
        """Return the measured parts of a prepared case, or the variant, each with its uses per launch."""
        return self._binds[case]

    def in_parts(self, case: Case) -> bool:
        """Report whether parts of a prepared case are timed in place of the checked call."""
        return all(bind is not self._complete[case] for _, bind, _ in self.binds(case))

    def checked(self, case: Case) -> float | None:
        """Seconds of the launch that checked the case; None if it was not checked."""
        return self._pilot.get(case)

    def close(self) -> None:
        """Forget a contest's cases and what they hold."""
        self._binds.clear()
        self._complete.clear()
        self._pilot.clear()
