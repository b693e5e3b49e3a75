"""Where cases are placed and visited, in a worker process or in this one."""

from __future__ import annotations

import ctypes
import math
import os
import resource
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernels.catalog import find
from kernels.devices.base import Pace
from kernels.errors import Unavailable
from micro.planning.contest import Case
from micro.worker import placement
from micro.worker import visits as worker_visits
from micro.worker.arenas import ROOM, Arenas, Placed
from micro.worker.canaries import canaries
from micro.worker.counters import Counters
from micro.worker.kernels import Kernels
from micro.worker.messages import Look, Opened
from micro.worker.timed import LONG, UNTOLD, VISIT, WARM, Timed, launches, room, told

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.launch import Launch
    from kernels.problem import Array, Problem

TOLD = 1e-3  # seconds: the second call that takes as long tells enough of it
CANARIES, STEPWISE = 8, 3  # of each small one at the start of a look; where a visit takes milliseconds
COLD_SHARE = 4  # cold operands rotate through so many last-level caches
IDLE = 2.0  # seconds after which a device's clock may have fallen, and is ramped up again
HOT = 0.01  # share of a look's time with the clock held down for heat that rejects the look
RAMP, ALIKE, MEDIAN = 2.0, 0.01, 4  # seconds at most until three medians of so many visits are alike


class Host(Kernels):
    """Serves one device. `cell`: address of the 32-bit cell that tells which case is under way."""

    def __init__(self, device: Device, cell: int) -> None:
        super().__init__(device)
        self._state: dict[str, float] = {}
        self._pace = Pace()
        self._asking = 0.0  # seconds that it takes to be told its pace
        self._spare = ctypes.c_int32(-1)  # where nobody watches
        self._cell = cell or ctypes.addressof(self._spare)
        self._arenas = Arenas(device)
        self._busy = -math.inf  # when it was last timed
        self._overhead: float | None = None
        self._ceilings: dict[tuple[Problem, str], float] = {}

    def running(self) -> int:
        """The case under way, or −1."""
        return int(ctypes.c_int32.from_address(self._cell).value)

    def open(self, cases: Sequence[Case], mine: Sequence[bool], seed: int) -> list[list[float]]:
        """Lay out a contest; seconds of one launch of each part of each case. Cases not `mine` take their
        place here and are launched by another worker: they have no seconds."""
        ctypes.c_int32.from_address(self._cell).value = -1
        self._seed, self._cases, self._mine = seed, list(cases), list(mine)
        self._cores = _cores()
        self._process = any(case.setting.threads > 1 for case in cases)
        self._timed = [entry for i in range(len(cases)) for entry in self._entries(i)]
        self._canaries = [
            Timed(problem, variant, variant.prepare(problem, self.device, cases[0].setting), -1, 1)
            for problem, variant in canaries(self.device)
        ]
        self._lay_out(room=0)
        if self._own() and not self.device.native:
            self._warm_up()
        return [
            [self._known_or(entry) for entry in self._timed if entry.case == i] if mine[i] else []
            for i in range(len(cases))
        ]

    def settle(self, calls: Sequence[Sequence[float]], visit: float) -> Opened:
        """How a contest is run, decided alike in all its workers from the seconds of every launch."""
        for i, case_calls in enumerate(calls):
            for entry, call in zip(self._of(i), case_calls, strict=True):
                entry.call = call
        measured = [e for e in self._timed if self._cases[e.case].role == "measured"]
        fastest = min((e.call for e in measured), default=VISIT)
        self._captured = all(e.capturable for e in measured if self._mine[e.case])
        for entry in self._timed:
            call = fastest if entry in measured else entry.call
            entry.launches = launches(self.device, entry, visit, call, self._captured)
            entry.warm = 0 if entry.call > LONG or entry.cold else WARM
        limits = self.device.limits()
        cache = limits.usable_cache
        self._single = all(e.call > LONG and e.problem.footprint > cache for e in measured)
        if not self._single:
            self._lay_out(room=None)
        cases = range(len(self._cases))
        return Opened(
            tuple(max(e.launches for e in self._of(i)) for i in cases),
            tuple(max(e.call * e.launches for e in self._of(i)) for i in cases),
            sum(e.call * (e.launches + e.warm) + limits.visit for e in self._timed),
            0.0 if self.device.native else limits.visit * STEPWISE * len(self._canaries) + self._asking,
        )

    def _of(self, case: int) -> list[Timed]:
        return [entry for entry in self._timed if entry.case == case]

    def _entries(self, i: int) -> list[Timed]:
        case = self._cases[i]
        if case not in self._binds:
            if self._mine[i]:
                self._labeled(i, lambda: self.prepare(case))
            else:
                variant = find(case.problem.op, case.variant)
                with suppress(Unavailable):  # of another device: it only takes its place here
                    variant = self.device.adopt(variant)
                parts = variant.parts(case.problem) or ((variant, 1),)
                data = case.setting.data
                return [Timed(case.problem, part, lambda views: _nothing(), i, n, data=data) for part, n in parts]
        sets = 1
        if case.setting.cold and self.device.native:  # a GPU's cache is flushed instead
            cache = self.device.limits().usable_cache
            cold = sum(x.nbytes for x in case.problem.operands() if x.name in case.setting.cold)
            sets = max(2, math.ceil(COLD_SHARE * cache / cold))
        return [
            Timed(case.problem, variant, bind, i, uses, case.setting.cold, case.setting.data, sets=sets)
            for variant, bind, uses in self._binds[case]
        ]

    def _own(self) -> list[Timed]:
        return [entry for entry in self._timed if self._mine[entry.case]]

    def _lay_out(self, room: int | None) -> None:
        """Places for every operand of every entry."""
        everything = [(e, x) for e in self._timed for x in e.problem.operands()]
        self._owner = [e for e, _ in everything]
        least = max((e.problem.footprint for e in self._canaries), default=0) + (1 << 16)
        placed = [
            Placed(
                e.problem,
                x,
                x.nbytes * (e.sets if x.name in e.cold else 1),
                f"{e.problem.name}/variant:{e.variant.name}#{e.case}",
                e.data,
            )
            for e, x in everything
        ]
        self._arenas.lay_out(placed, room, least)
        for entry in (*self._own(), *self._canaries):
            entry.entry = None

    def _draw(self, first: int, rounds: int) -> Array:
        return self._arenas.draw(self._seed, first, rounds, self._single)

    def _bound(self, entry: Timed, offsets: Array, turn: int = 0) -> Launch:
        """The launch at a placement."""
        views = []
        for operand, offset in zip(entry.problem.operands(), offsets, strict=True):
            shift = turn * operand.nbytes if operand.name in entry.cold else 0
            views.append(self._arenas.view(operand, int(offset) + shift, entry.data))
        return entry.bind(views)

    def _addresses(self, entry: Timed, offsets: Array, keep: list[Any]) -> Array:
        """What the loop writes into an entry's slots for a visit: a row for each of its placements."""
        import numpy as np

        turns = [0]
        if entry.sets > 1:
            turns = [(entry.turn + i) % entry.sets for i in range(entry.launches)]
            entry.turn += entry.launches
        if entry.entry is None:
            entry.launch = self._bound(entry, offsets)
            entry.entry = entry.launch.entry or worker_visits.python_entry(entry.launch)
        assert entry.launch is not None
        if entry.launch.entry is None:
            bound = [self._bound(entry, offsets, turn) for turn in turns]
            keep += bound
            return np.array([id(launch.call) for launch in bound], np.int64)
        rows = []
        operands = entry.problem.operands()
        base = [self._arenas.address(x, entry.data) for x in operands]
        for turn in turns:
            shift = [turn * x.nbytes if x.name in entry.cold else 0 for x in operands]
            rows.append(np.array(base) + offsets + shift)
        return np.concatenate(rows)

    def _visit(self, entries: Sequence[Timed], which: Sequence[int], offsets: Sequence[Array]) -> worker_visits.Timed:
        import numpy as np

        visits = worker_visits.Visits(
            np.array(which, np.int32),
            [],
            [e.launches for e in entries],
            [e.warm for e in entries],
            [bool(e.cold) for e in entries],
            [e.case for e in entries],
            [e.problem.on_host for e in entries],
            [e.unheld for e in entries],
        )
        if not self.device.native:
            bound = [[self._bound(entries[w], o)] for w, o in zip(which, offsets, strict=True)]
            if not self._captured:  # rivals are called the same way
                bound = [[replace(launch, capturable=False)] for (launch,) in bound]
            timed = worker_visits.stepwise(self.device, bound, visits, self._cell)
            return told(self.device, entries, which, timed, self._overhead or 0.0)
        keep: list[Any] = []
        places = [self._addresses(entries[w], o, keep) for w, o in zip(which, offsets, strict=True)]
        visits = replace(visits, places=places)
        return worker_visits.compiled([e.entry for e in entries], visits, self._cell, self._process)

    def _warm_up(self) -> None:
        """What is known before anything of a device is timed that is not called from a compiled loop."""
        self._single, self._captured = True, False
        row = self._draw(0, 1)[0]
        idle = time.perf_counter() - self._busy
        for entry in self._own():
            launch = self._bound(entry, self._offsets(row, entry))
            entry.kernels, entry.capturable = launch.kernels or UNTOLD * launch.uses, launch.capturable
            if self._cases[entry.case] not in self._pilot:
                self._launch_first(entry, launch)
        if idle > IDLE:
            self._ramp(self._own()[0])
        self._state = {}  # of an earlier contest's temperature and power nothing is told
        if self._overhead is None:
            self._overhead = self.device.overhead()
            self._state, began = self.device.state(), time.perf_counter()
            self._pace, self._asking = self.device.pace(), time.perf_counter() - began

    def _launch_first(self, entry: Timed, launch: Launch) -> None:
        """What a launch loads or compiles in a process where it was not checked: it would break a hold."""
        self._labeled(entry.case, launch.call)
        self._labeled(entry.case, self.device.sync)

    def _labeled(self, case: int, do: Callable[[], object]) -> None:
        """What a case does outside a look, for which it answers alone."""
        cell = ctypes.c_int32.from_address(self._cell)
        cell.value = case
        do()
        cell.value = -1

    def _ramp(self, entry: Timed) -> None:
        """Keep the device busy until its clock has settled: three medians in a row that are alike."""
        import numpy as np

        self._single, self._captured, entry.launches, entry.warm = True, False, 1, 0
        offsets = self._offsets(self._draw(0, 1)[0], entry)
        medians: list[float] = []
        end = time.perf_counter() + RAMP
        while time.perf_counter() < end:
            medians.append(float(np.median(self._visit([entry], [0] * MEDIAN, [offsets] * MEDIAN).wall)))
            last = medians[-3:]
            if len(last) == 3 and max(last) <= min(last) * (1 + ALIKE):
                return

    def _offsets(self, row: Array, entry: Timed) -> Array:
        return row[[i for i, owner in enumerate(self._owner) if owner is entry]]

    def _known_or(self, entry: Timed) -> float:
        """Seconds of one launch; of a ceiling as an earlier contest found them: they tell no more than its launches."""
        bound, key = self._cases[entry.case].role == "ceiling", (entry.problem, entry.variant.name)
        if not bound or self.device.native:
            return self._calibrate(entry)
        if key not in self._ceilings:
            self._ceilings[key] = self._calibrate(entry)
        return self._ceilings[key]

    def _calibrate(self, entry: Timed) -> float:
        """Seconds of one launch, from the check where that already told it is long; not where its only launch may have
        been the one that loads and compiles."""
        case = self._cases[entry.case]
        pilot = self._pilot.get(case, 0.0) if self.device.native else 0.0
        if pilot > LONG and len(self._binds.get(case, ())) == 1:
            return pilot
        self._single, self._captured = True, False
        offsets = self._offsets(self._draw(0, 1)[0], entry)
        entry.launches, entry.warm, entry.call = 1, 0, 0.0 if pilot < LONG else pilot
        for _ in range(4 if self.device.native else 3):  # a cold first call tells nothing
            timed = self._visit([entry], [0], [offsets])
            took = float(timed.wall[0]) / int(timed.launches[0])
            most = 100_000 if self.device.native else room(self.device, entry)
            entry.launches = max(1, min(most, math.ceil(VISIT / max(took, 1e-9))))
            if took > TOLD and entry.call:
                break
            entry.call = took
        return max(took, 1e-9)

    def look(self, first: int, rounds: int, only: int | None = None, canary: bool = True) -> Look:
        """Visit every case once a round, in fresh random order; `only` one case where workers take turns."""
        import numpy as np

        began, faults = time.perf_counter(), _faults()
        counters = Counters.now()
        table = self._draw(first, rounds)
        places = table[:, [self._owner.index(e) for e in self._timed]]
        entries = [e for e in self._own() if only is None or e.case == only]
        order = placement.orders(self._seed, first, rounds, len(entries))
        columns = [[i for i, owner in enumerate(self._owner) if owner is e] for e in entries]
        offsets = [table[r, columns[e]] for r in range(rounds) for e in order[r]]
        medians = self._canary() if canary else {}
        timed = self._visit(entries, order.ravel().tolist(), offsets)
        shape = (rounds, len(self._cases))
        wall, cpu, lost = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        at = (np.arange(rounds)[:, None], order)
        for source, target in ((timed.wall, wall), (timed.cpu, cpu)):
            visits = np.empty(order.shape)
            visits[at] = (source / timed.launches).reshape(order.shape)
            for i, entry in enumerate(entries):
                target[:, entry.case] += visits[:, i] / entry.uses
        share, broke = np.empty(order.shape), np.empty(order.shape, bool)
        share[at], broke[at] = timed.lost.reshape(order.shape), timed.broke.reshape(order.shape)
        for i, entry in enumerate(entries):
            if self._cases[entry.case].setting.threads > 1:
                continue  # its threads need not all work all the time: others' load is told by the counters
            lost[:, entry.case] = np.maximum(lost[:, entry.case], share[:, i])
        slowed, self._busy = self._slowed(), time.perf_counter()
        if slowed.get("thermal", 0.0) > HOT * (time.perf_counter() - began):
            lost[:] = 1.0
        by_case = places[:, [next(i for i, e in enumerate(self._timed) if e.case == c) for c in range(shape[1])]]
        return Look(
            wall,
            cpu,
            lost,
            by_case,
            medians,
            replace(Counters.now() - counters, moved=int(_cores() != self._cores)),
            _faults() - faults,
            time.perf_counter() - began,
            self._state,
            tuple(max(e.launches for e in self._of(c)) for c in range(shape[1])),
            tuple(int(sum(broke[:, i].sum() for i, e in enumerate(entries) if e.case == c)) for c in range(shape[1])),
            tuple(any(e.unheld for e in self._of(c)) for c in range(shape[1])),
            slowed,
        )

    def _slowed(self) -> dict[str, float]:
        """Seconds of this look, by cause, for which the device's clock was held down; its clock goes into the state."""
        before, self._pace = self._pace, self.device.pace()
        if (clock := self._pace.megahertz) is not None:
            self._state = self._state | {"sm_megahertz": clock}
        known = self._pace.slowed
        return {cause: seconds - before.slowed.get(cause, seconds) for cause, seconds in known.items()}

    def _canary(self) -> dict[str, float]:
        """Median seconds of each canary: of processor time, or where there is none by the device's clock."""
        import numpy as np

        medians = {}
        for entry in self._canaries:
            entry.launches, entry.warm = 1, 1
            few = CANARIES if self.device.native else STEPWISE
            count = few if entry.problem.footprint < ROOM else 1
            offset = np.zeros(len(entry.problem.operands()), np.int64)
            timed = self._visit([entry], [0] * count, [offset] * count)
            medians[entry.problem.name] = float(np.median(timed.wall if np.isnan(timed.cpu).any() else timed.cpu))
        return medians

    def close(self) -> None:
        """Forget a contest's cases and what they hold; the arenas stay."""
        super().close()
        self._timed = []


def _faults() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt + usage.ru_majflt


def _cores() -> frozenset[int]:
    """Those this process may run on; a container or an administrator may take one away at any time."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


def _nothing() -> Launch:
    raise AssertionError("a case of another worker is only placed here")
