"""One contest in a worker, from its layout to its last batch of rounds."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kernels.catalog import find, is_user
from kernels.devices import kind_of
from kernels.errors import Unavailable, WrongResult
from micro.planning.contest import LONG, VISIT, WARM, Case
from micro.worker import placement, process_state, run_queue, visits
from micro.worker.arenas import ROOM, Arenas, together
from micro.worker.calibration import calibrated, loop_seconds, ramp
from micro.worker.counters import Counters, page_faults
from micro.worker.layout import Layout
from micro.worker.messages import ContestCost, RoundBatch
from micro.worker.speed import canaries
from micro.worker.timed import UNTOLD, Timed, launches, without_overhead
from micro.worker.watch import Overwritten, Watch, out_of_step
from micro.worker.witness import Witness, watched

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.launch import Bind, Launch
    from kernels.problem import Array, Problem
    from kernels.variant import Variant
    from micro.worker.kernels import Kernels
    from micro.worker.speed import Speed

CANARIES, STEPWISE = 8, 3  # samples of each small canary per batch, in the compiled loop and step by step
COLD_SHARE = 4  # size of the cold operands that launches rotate through, in last-level caches
DEAR = 1e6  # operations or bytes of a problem whose float64 reference takes long
SHORT = 1e-6  # seconds of a call, below which the loop's share matters
TRIES = 4  # samples of a case alone that show whether it changes shared state
AT_ONCE = 1.2  # ratio of processor to wall time that shows several threads in a one-thread case
HOT = 0.01  # least share of a batch's time with the clock lowered for heat that rejects the batch


@dataclass(frozen=True)
class WorkerContext:
    """Objects of a worker that its successive contests share."""

    kernels: Kernels
    arenas: Arenas
    speed: Speed
    cell: int  # address of the cell that holds the case under way
    ceilings: MutableMapping[tuple[Problem, str], float]  # seconds of one launch, by problem and variant

    @property
    def device(self) -> Device:
        return self.kernels.device

    @contextmanager
    def under_way(self, case: int) -> Iterator[None]:
        """Name a case in the cell during the block, so that a crash or error is attributed to it."""
        cell = ctypes.c_int32.from_address(self.cell)
        cell.value = case
        yield
        cell.value = -1


class OpenContest:
    """A laid-out contest; cases that are not `mine` occupy memory here but run in another worker."""

    def __init__(self, bench: WorkerContext, cases: Sequence[Case], mine: Sequence[bool], seed: int) -> None:
        ctypes.c_int32.from_address(bench.cell).value = -1
        self._bench, self._device = bench, bench.device
        self._seed, self._cases, self._mine = seed, list(cases), list(mine)
        self._state = process_state.take()
        self._threaded = any(case.setting.threads > 1 for case in cases)
        self._captured = False
        self.entries = [entry for i in range(len(cases)) for entry in self._entries(i)]
        usual = replace(cases[0].setting, isa="default")  # so that canaries compare with earlier commands'
        self._canaries = [
            Timed(problem, variant, variant.prepare(problem, self._device, usual), -1, 1)
            for problem, variant in canaries(self._device)
        ]
        least = together(entry.problem for entry in self._canaries)
        launched = self._launched()
        self.layout = Layout(bench.arenas, self.entries, (*launched, *self._canaries), least, seed)
        self.watch = Watch(self._device, self.layout, self._seen(), bench.under_way)
        if launched and not self._device.kind.compiled:
            self._warm_up(launched)

    def _entries(self, i: int) -> list[Timed]:
        """Return a case's timed entries; another worker's case gets placeholders with its operands."""
        case, kernels = self._cases[i], self._bench.kernels
        if self._mine[i] and not kernels.prepared(case):
            with self._bench.under_way(i):
                kernels.prepare(case)
        binds = kernels.binds(case) if kernels.prepared(case) else self._elsewhere(case)
        sets = self._sets(case) if case.setting.cold else 1
        return [
            Timed(case.problem, variant, bind, i, uses, case.setting.cold, case.setting.data, sets=sets)
            for variant, bind, uses in binds
        ]

    def _sets(self, case: Case) -> int:
        """Return how many copies of cold operands launches rotate through; 1 if caches are flushed."""
        if not self._device.kind.compiled or kind_of(case.setting.device).name != self._device.kind.name:
            return 1
        cold = sum(x.nbytes for x in case.problem.operands() if x.name in case.setting.cold)
        return max(2, math.ceil(COLD_SHARE * self._device.limits().usable_cache / cold))

    def _elsewhere(self, case: Case) -> list[tuple[Variant[Any], Bind, int]]:
        variant = find(case.problem.op, case.variant)
        with suppress(Unavailable):  # a case of another device
            variant = self._device.adopt(variant)
        parts = variant.parts(case.problem) or ((variant, 1),)
        return [(part, lambda views: _nothing(), uses) for part, uses in parts]

    def _launched(self) -> list[Timed]:
        return [entry for entry in self.entries if self._mine[entry.case]]

    def _seen(self) -> list[int]:
        """Return the cases whose timed answers are verified: no ceilings, and no cases timed in parts.

        On a scripted device, which answers with the reference, only cases whose reference is fast."""
        scripted = self._device.kind.scripted
        return [
            i
            for i, case in enumerate(self._cases)
            if case.role == "measured"
            and len(self._of(i)) == 1
            and not self._in_parts(case)
            and not (scripted and max(case.problem.flops, case.problem.footprint) > DEAR)
        ]

    def _in_parts(self, case: Case) -> bool:
        kernels = self._bench.kernels
        return kernels.prepared(case) and kernels.in_parts(case)

    def _of(self, case: int) -> list[Timed]:
        return [entry for entry in self.entries if entry.case == case]

    def _warm_up(self, entries: Sequence[Timed]) -> None:
        """Initialize entries that are called step by step: kernel count, first launch, clock speed."""
        row, idle = self.layout.draw(0, 1)[0], self._bench.speed.idle
        untold = min(UNTOLD, max(1, self._device.kind.queue))
        for entry in entries:
            launch = self.layout.bound(entry, self.layout.of(row, entry))
            entry.kernels, entry.capturable = launch.kernels or untold * launch.uses, launch.capturable
            if self._bench.kernels.checked(self._cases[entry.case]) is None:
                self._launch_first(entry, launch)
        if idle:
            ramp(entries[0], self.pilot)
        self._bench.speed.begin()

    def _launch_first(self, entry: Timed, launch: Launch) -> None:
        """Launch a case that this process did not check, so that loading does not break the first hold."""
        for do in (launch.call, self._device.sync):
            with self._bench.under_way(entry.case):
                do()

    def calls(self) -> list[list[float]]:
        """Return the seconds of one launch of each part of each case; [] for another worker's case."""
        return [[self._call(e) for e in self._of(i)] if mine else [] for i, mine in enumerate(self._mine)]

    def _call(self, entry: Timed) -> float:
        """Return the seconds of a launch: known for some cases, else calibrated.

        Called step by step, a ceiling is known from an earlier contest. In the compiled loop, a long case is known from
        its check; on other devices, the check's launch may have included loading and compiling."""
        case, key = self._cases[entry.case], (entry.problem, entry.variant.name)
        seconds = self._bench.ceilings if case.role == "ceiling" and not self._device.kind.compiled else {}
        if key in seconds:
            return seconds[key]
        checked = (self._bench.kernels.checked(case) if self._device.kind.compiled else None) or 0.0
        if checked > LONG and not self._in_parts(case):
            return checked
        seconds[key] = calibrated(self._device, entry, checked, self.pilot)
        return seconds[key]

    def pilot(self, entry: Timed, count: int) -> visits.Timed:
        """Time `count` samples of an entry at its fixed placement, not captured as a graph."""
        return self.visit([entry], [0] * count, [self.layout.fixed(entry)] * count, captured=False)

    def calibrate(self, calls: Sequence[Sequence[float]], visit: float) -> ContestCost:
        """Choose launches per sample and placement from launch times, alike in all workers; return the cost."""
        for i, case_calls in enumerate(calls):
            for entry, call in zip(self._of(i), case_calls, strict=True):
                entry.call = call
        measured = [e for e in self.entries if self._cases[e.case].role == "measured"]
        fastest = min((e.call for e in measured), default=VISIT)
        self._captured = all(e.capturable for e in measured if self._mine[e.case])
        for entry in self.entries:
            call = fastest if entry in measured else entry.call
            entry.launches = launches(self._device, entry, visit, call, self._captured)
            of_long = 1 if entry.variant.constant else 0  # the first call at a placement fills the variant's cache
            entry.warm = 0 if entry.cold else of_long if entry.call > LONG else WARM
        limits = self._device.limits()
        if not all(e.call > LONG and e.problem.footprint > limits.usable_cache for e in measured or self.entries):
            self.layout.spread()
        cases, asking = range(len(self._cases)), self._bench.speed.asking
        a_round = sum(e.seconds(self._device.kind.compiled) + limits.visit for e in self.entries)
        self.watch.looks(a_round)
        return ContestCost(
            tuple(max(e.launches for e in self._of(i)) for i in cases),
            tuple(max(e.call * e.launches for e in self._of(i)) for i in cases),
            a_round,
            0.0 if self._device.kind.compiled else limits.visit * STEPWISE * len(self._canaries) + asking,
            loop_seconds(self._bench.cell) if self._device.kind.compiled and fastest < SHORT else 0.0,
            run_queue.available(),
        )

    def visit(
        self,
        entries: Sequence[Timed],
        which: Sequence[int],
        offsets: Sequence[Array],
        captured: bool,
        turns: Sequence[Sequence[int]] | None = None,
        witnesses: Sequence[Witness] = (),
    ) -> visits.Timed:
        """Time samples in the order of `which`, the index of each sample's entry.

        `offsets`: places of each sample's operands; `turns`: its sets of cold operands; `captured`: as a graph."""
        import numpy as np

        plan = visits.Visits(
            np.array(which, np.int32),
            [],
            [e.launches for e in entries],
            [e.warm for e in entries],
            [bool(e.cold) for e in entries],
            [e.case for e in entries],
            [e.problem.on_host for e in entries],
            [e.unheld for e in entries],
            out_of_step(entries, which),
        )
        if self._device.kind.compiled:
            keep: list[Any] = []
            turns = turns or [self.layout.turns(entries[w]) for w in which]
            visited = zip(which, offsets, turns, strict=True)
            plan = replace(plan, places=[self.layout.addresses(entries[w], o, t, keep) for w, o, t in visited])
            timed = [e.entry for e in entries]
            return visits.compiled(timed, plan, self._bench.cell, self._threaded, watched(witnesses))
        bound = [self.layout.bound(entries[w], o) for w, o in zip(which, offsets, strict=True)]
        if not captured:  # rivals are all captured, or none
            bound = [replace(launch, capturable=False) for launch in bound]
        launches = [[launch] for launch in bound]
        times = visits.stepwise(self._device, launches, plan, self._bench.cell, {x.visit: x for x in witnesses})
        return without_overhead(self._device, entries, which, times, self._bench.speed.overhead)

    def run_rounds(self, first: int, rounds: int, only: int | None, canary: bool) -> RoundBatch:
        """Run every case once per round, in random order. `only`: the single case to run, for turns."""
        began, faults, counters, watch = time.perf_counter(), page_faults(), Counters.now(), self.watch
        cost = watch.seconds, watch.faults
        table = self.layout.draw(first, rounds)
        entries = [e for e in self._launched() if only is None or e.case == only]
        order = placement.orders(self._seed, first, rounds, len(entries))
        columns = [self.layout.columns(e) for e in entries]
        offsets = [table[r, columns[e]] for r in range(rounds) for e in order[r]]
        which = order.ravel().tolist()
        turns = [self.layout.turns(entries[w]) for w in which]
        witnesses = watch.draw(entries, which, offsets, turns, first)
        medians = self._canary_medians() if canary else {}
        times = self.visit(entries, which, offsets, self._captured, turns, witnesses)
        spent = Counters.now() - counters
        self._refuse_changes()
        self._judge(witnesses)
        stolen = spent.stolen / spent.clock if spent.clock else 0.0
        batch = self._gathered(entries, order, times, table, stolen)
        slowed = self._bench.speed.slowed()
        if slowed.get("thermal", 0.0) > HOT * (time.perf_counter() - began):
            batch.lost[:] = 1.0
        seconds = time.perf_counter() - began
        watch.timed(seconds - (watch.seconds - cost[0]))
        return replace(
            batch,
            canary=medians,
            counters=replace(spent, moved=int(process_state.cores() != self._state.cores)),
            faults=page_faults() - faults - (watch.faults - cost[1]),
            seconds=seconds,
            witnesses=tuple(watch.counts.get(case, 0) for case in range(len(self._cases))),
            witnessing=watch.seconds - cost[0],
            state=self._bench.speed.state,
            slowed=slowed,
        )

    def _judge(self, witnesses: Sequence[Witness]) -> None:
        """Raise WrongResult for a wrong answer; if inputs were overwritten, for the case that did it."""
        try:
            self.watch.judge(witnesses, self._wrong)
        except Overwritten as overwritten:
            case = self._cases[overwritten.case]
            if self._device.kind.compiled:
                self._refuse_overwriter()
            if is_user(case.problem.op, case.variant) or not self._device.kind.compiled:
                self._wrong(overwritten.case, overwritten.error)
                with self._bench.under_way(overwritten.case):
                    raise overwritten.error from None

    def _refuse_overwriter(self) -> None:
        """Raise WrongResult for the case that overwrites inputs when it runs alone; restore the inputs."""
        arenas = self._bench.arenas
        arenas.fill_again()
        before = arenas.sums()

        def changed() -> str:
            if arenas.sums() == before:
                return ""
            arenas.fill_again()
            return "changes its inputs"

        self._refuse_guilty(changed)

    def _refuse_changes(self) -> None:
        """Restore the process state from before the contest; raise WrongResult for the case that changed it.

        Changed cores are left: another process may have changed them."""

        def changed() -> str:
            after = process_state.take()
            expected = replace(self._state, cores=after.cores)
            if after != expected:
                process_state.restore(expected)
            return "; ".join(process_state.state_changes(expected, after))

        if changed():
            self._refuse_guilty(changed)

    def _refuse_guilty(self, changed: Callable[[], str]) -> None:
        """Run each case alone; raise WrongResult for the case after which `changed` returns a message."""
        for entry in self._launched():
            self.pilot(entry, TRIES)
            if what := changed():
                with self._bench.under_way(entry.case):
                    raise WrongResult(what + visits.WHILE_TIMED)

    def _wrong(self, case: int, error: WrongResult) -> None:
        self._bench.kernels.leave(self._cases[case], error)

    def _gathered(
        self, entries: Sequence[Timed], order: Array, times: visits.Timed, table: Array, stolen: float
    ) -> RoundBatch:
        """Return samples as arrays [rounds, cases]; a case's parts add up, its loss is the worst part's.

        `stolen`: share of the batch's time that the hypervisor took."""
        import numpy as np

        taken = run_queue.stolen(times.wall, times.waited, stolen)
        known = self._device.kind.compiled and run_queue.available()  # elsewhere that clock may have steps of 10 ms
        helped = known & (times.cpu > AT_ONCE * times.wall)
        shape = (len(order), len(self._cases))
        wall, cpu, lost = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        broken, waits = [0] * len(self._cases), [0.0] * len(self._cases)
        positions = np.argsort(order, axis=1) + np.arange(len(order))[:, None] * len(entries)
        for i, entry in enumerate(entries):
            at = positions[:, i]  # index of the entry's sample in each round
            uses = times.launches[at] * entry.uses
            alone = self._cases[entry.case].setting.threads == 1
            wall[:, entry.case] += np.where(helped & alone, times.cpu, times.wall)[at] / uses
            cpu[:, entry.case] += (times.cpu - taken)[at] / uses
            broken[entry.case] += int(times.broke[at].sum())
            if alone:
                # Several threads may idle: the counters show foreign load beside them.
                lost[:, entry.case] = np.maximum(lost[:, entry.case], (times.lost + taken / times.wall)[at])
                waits[entry.case] += float(((times.waited - taken)[at] / uses).sum())
        cases = range(len(self._cases))
        firsts = [self.layout.owners.index(self._of(case)[0]) for case in cases]
        return RoundBatch(
            wall,
            cpu,
            lost,
            table[:, firsts],
            {},
            Counters(),
            0,
            0.0,
            launches=tuple(max(e.launches for e in self._of(case)) for case in cases),
            broken=tuple(broken),
            waits=tuple(waits),
            unheld=tuple(any(e.unheld for e in self._of(case)) for case in cases),
        )

    def _canary_medians(self) -> dict[str, float]:
        """Time each canary; return the medians in seconds, of processor time or the device's clock."""
        import numpy as np

        medians = {}
        for entry in self._canaries:
            entry.launches, entry.warm = 1, 1
            few = CANARIES if self._device.kind.compiled else STEPWISE
            count = few if entry.problem.footprint < ROOM else 1
            offset = np.zeros(len(entry.problem.operands()), np.int64)
            times = self.visit([entry], [0] * count, [offset] * count, self._captured)
            medians[entry.problem.name] = float(np.median(times.wall if np.isnan(times.cpu).any() else times.cpu))
        return medians


def _nothing() -> Launch:
    raise AssertionError("a case of another worker is only placed here")
