"""Timing of all samples of a batch of rounds, in one compiled loop or step by step."""

from __future__ import annotations

import ctypes
import functools
import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kernels import build
from kernels.devices.base import Elapsed
from kernels.errors import Unavailable, WrongResult
from kernels.launch import Entry, Launch
from micro.worker import process_state, run_queue

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.problem import Array

SOURCE = Path(__file__).with_name("loop.c")
PYTHON = Path(__file__).with_name("python_call.c")


@dataclass(frozen=True)
class Visits:
    """Plan of a batch of samples; fields are per entry, but `which`, `places` and `more` per sample."""

    which: Array  # entry of each sample
    places: list[Array]  # addresses of each sample's operands, per placement
    launches: Sequence[int]  # of one sample
    warm: Sequence[int]  # untimed calls before a sample
    cold: Sequence[bool]  # each launch has a separate placement
    labels: Sequence[int]  # written to the cell while an entry runs, to name the case of a crash
    on_host: Sequence[bool] = ()  # the caller's time is measured, not the device's
    unheld: Sequence[bool] = ()  # the stream is not held, as its queue cannot take one launch
    more: Sequence[int] = ()  # untimed calls beyond `warm` before each sample, in the compiled loop


@dataclass(frozen=True)
class Timed:
    """Times of a batch's samples, in seconds of all launches of a sample together."""

    wall: Array
    cpu: Array  # by the processor's clock
    lost: Array  # share of the wall time lost to others
    waited: Array  # voluntarily, part of `wall` and `cpu`
    launches: Array  # number of launches timed
    broke: Array  # the hold broke: the device began before all was enqueued, and waited for its caller


class _Entry(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_void_p),
        ("argument", ctypes.c_void_p),
        ("argument_bytes", ctypes.c_int64),
        ("slots", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("slot_count", "launches", "warm", "step", "label")),
        ("single", ctypes.c_void_p),
        ("single_offset", ctypes.c_int64),
    )


class _Callable(ctypes.Structure):
    _fields_ = (("callable", ctypes.c_void_p), ("stop", ctypes.c_void_p))


class _Witness(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("visit", "launch")),
        *((name, ctypes.c_void_p) for name in ("before", "behind")),
        *((name, ctypes.c_int64) for name in ("before_count", "behind_count")),
    )


class _FloatingWatch(ctypes.Structure):
    _fields_ = (("read", ctypes.c_void_p), ("before", process_state.Floating), ("changed_at", ctypes.c_int64))


@dataclass(frozen=True)
class Watched:
    """A verified launch of a sample, with memory copies around it: source, target and bytes, [n, 3]."""

    visit: int
    launch: int
    before: Array  # copies made before the launch
    behind: Array  # copies made after the launch


PAGE = 4096  # bytes
ALONE = 2  # samples of a single launch that break their hold until the case is no longer held
WHILE_TIMED = " while timed"
STOP = ctypes.c_int32(0)  # set by a Python launch that raised


def python_entry(launch: Launch) -> Entry:
    """Return the entry of a launch that only Python can call; its one slot is the callable."""
    function = build.address(PYTHON, "call_python")
    return Entry(function, _Callable(id(launch.call), ctypes.addressof(STOP)), (0,), (launch,))


@functools.cache
def _library() -> Any:
    # PyDLL: entries may call Python, and an error they leave is raised when the batch returns.
    loaded = ctypes.PyDLL(str(build.shared(SOURCE)))
    loaded.run_look.restype, loaded.clock_cost.restype = None, ctypes.c_double
    return loaded


def nothing() -> Entry:
    """Return the entry of an empty launch, which times the overhead of the loop."""
    function = ctypes.cast(_library().nothing, ctypes.c_void_p).value
    assert function is not None
    return Entry(function, _Callable(), ())


def compiled(
    entries: Sequence[Entry], visits: Visits, running: int, threaded: bool, watched: Sequence[Watched] = ()
) -> Timed:
    """Run the batch in loop.c.

    `running`: address of the 32-bit cell for the case under way; `threaded`: kernels have several threads, which wait
    for each other; `watched`: verified launches, sorted by sample and launch. If a sample changes the floating-point
    state, restores the state and raises WrongResult, with the sample's case in the cell."""
    import numpy as np

    slots = [np.array(entry.slots, np.int64) for entry in entries]
    table = _table(entries, slots, visits)
    which = np.ascontiguousarray(visits.which, np.int32)
    more = np.array(visits.more if len(visits.more) else np.zeros(len(which)), np.int32)
    lengths = [len(place) for place in visits.places]
    start = np.cumsum([0, *lengths[:-1]], dtype=np.int64)
    addresses = np.concatenate(visits.places).astype(np.int64) if visits.places else np.zeros(0, np.int64)
    wall, cpu, queued = np.empty((3, len(which)))
    pointer, queue = ctypes.c_void_p, run_queue.library()
    STOP.value = 0
    floating = _FloatingWatch(process_state.reader())
    if not threaded:
        run_queue.open_tasks()
    _library().run_look(
        ctypes.byref(table),
        ctypes.c_int64(len(which)),
        *(pointer(x.ctypes.data) for x in (which, more, start, addresses, wall, cpu, queued)),
        None if threaded else queue.queue_begin,
        None if threaded else queue.queue_end,
        pointer(running),
        ctypes.byref(STOP),
        ctypes.byref(_witnesses(watched)),
        pointer(_common(max(ctypes.sizeof(entry.argument) for entry in entries))),
        ctypes.c_double(_library().clock_cost()),
        ctypes.byref(floating),
    )
    run_queue.close_tasks()
    if floating.changed_at >= 0:
        raise WrongResult(process_state.put_back(floating.before) + WHILE_TIMED)
    charged = run_queue.charged(wall, cpu, queued)
    launched = np.array(visits.launches)[which]
    return Timed(wall, charged.took, charged.lost / wall, charged.waited, launched, np.zeros(len(which), bool))


def _table(entries: Sequence[Entry], slots: Sequence[Array], visits: Visits) -> ctypes.Array[_Entry]:
    table = (_Entry * len(entries))()
    for i, entry in enumerate(entries):
        step = len(entry.slots) if visits.cold[i] else 0
        single = entry.single or (entry.function, 0)
        table[i] = _Entry(
            entry.function,
            ctypes.addressof(entry.argument),
            ctypes.sizeof(entry.argument),
            slots[i].ctypes.data,
            len(entry.slots),
            visits.launches[i],
            visits.warm[i],
            step,
            visits.labels[i],
            *single,
        )
    return table


def _common(nbytes: int) -> int:
    """Return the address of a page-aligned buffer for arguments up to `nbytes`, shared by all cases."""
    wanted = max(PAGE, -(-nbytes // PAGE) * PAGE)
    block = _pages(wanted)
    return ctypes.addressof(block) + -ctypes.addressof(block) % PAGE


@functools.cache
def _pages(nbytes: int) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(nbytes + PAGE)


def _witnesses(watched: Sequence[Watched]) -> ctypes.Array[_Witness]:
    """Return the C table of verified launches, ended by an entry whose `visit` is −1."""
    table = (_Witness * (len(watched) + 1))()
    for i, x in enumerate(watched):
        table[i] = _Witness(x.visit, x.launch, x.before.ctypes.data, x.behind.ctypes.data, len(x.before), len(x.behind))
    table[len(watched)].visit = -1
    return table


def stepwise(
    device: Device,
    launches: Sequence[Sequence[Launch]],
    visits: Visits,
    running: int,
    watched: Mapping[int, Any] = MappingProxyType({}),
) -> Timed:
    """Run the batch call by call, for devices without a compiled loop.

    `launches[v][0]`: the launch of sample v. `running`: address of the 32-bit cell for the case under way; `watched`:
    Witness by sample. A sample warms up or flushes the caches, then enqueues all launches behind a held stream, so that
    no launch gap falls between the two marks. A case whose hold broke makes half as many launches from then on; once
    its single launch broke the hold ALONE times, it is no longer held. A single break may be due to other processes."""
    import numpy as np

    cell = ctypes.c_int32.from_address(running)
    wall, cpu, queued = np.empty((3, len(visits.which)))
    counts, broke = np.empty(len(visits.which), np.int64), np.zeros(len(visits.which), bool)
    holds, host_clock = device.kind.visit == "held", device.kind.own_clock and not device.kind.scripted
    queue = _queue() if host_clock and any(visits.on_host) else None
    alone = [0] * len(visits.launches)
    launched, unheld = list(visits.launches), list(visits.unheld or [False] * len(visits.launches))
    for v, case in enumerate(visits.which):
        cell.value = visits.labels[case]
        bound, witness = launches[v], watched.get(v)
        _warm_up(device, bound[0], visits, case, witness)
        counts[v] = 1 if witness and witness.once else launched[case]
        run = device.repeat(bound[0], int(counts[v]))
        with _no_collection():
            if host_clock and bool(visits.on_host) and visits.on_host[case]:
                elapsed = _called(device, run, queue)
            else:
                elapsed, broke[v] = held(device, run, hold=holds and not unheld[case])
        if broke[v]:
            alone[case] += launched[case] == 1
            unheld[case], launched[case] = alone[case] >= ALONE, max(1, launched[case] // 2)
        wall[v], cpu[v], queued[v] = elapsed.wall, elapsed.cpu, elapsed.queued
        if witness:
            witness.keep()
    cell.value = -1
    charged = run_queue.charged(wall, cpu, queued)
    return Timed(wall, charged.took, charged.lost / wall, charged.waited, counts, broke)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Suspend Python's garbage collector, which may stop a caller for longer than a hold lasts."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _warm_up(device: Device, launch: Launch, visits: Visits, case: int, witness: Any) -> None:
    """Launch untimed, write a verified sample's operands, and flush the caches of a cold case."""
    for _ in range(visits.warm[case]):
        launch.call()
    if witness:
        witness.write()
    if visits.cold[case]:
        device.flush()
    device.sync()


def held(device: Device, run: Callable[[], object], hold: bool = True) -> tuple[Elapsed, bool]:
    """Return the device's time of a call, and whether the hold broke.

    The hold broke if the device reached the first mark before the last mark was enqueued: the queue was full, which
    stops the caller until the hold times out, or other processes stopped the caller. Then the caller's time counts."""
    if hold:
        device.hold()
    try:
        start = device.mark()
        run()
        end = device.mark()
        broke = hold and device.passed(start)
    finally:  # after an exception too: the next caller would time out on a stream that is still held
        if hold:
            device.release()
    device.sync()
    return device.between(start, end), broke


def _queue() -> Any:
    """Open the run queue's counters and return their library; None without a compiler."""
    with suppress(Unavailable):
        run_queue.open_tasks()
        return run_queue.library()


def _called(device: Device, run: Callable[[], object], queue: Any) -> Elapsed:
    """Return the host's time to enqueue a call, without waiting for the device."""
    before = queue.queue_begin() if queue else 0
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    run()
    ended = time.perf_counter_ns(), time.process_time_ns()
    queued = queue.queue_end(before) if queue else math.inf
    device.sync()
    return Elapsed((ended[0] - wall) * 1e-9, (ended[1] - cpu) * 1e-9, queued)
