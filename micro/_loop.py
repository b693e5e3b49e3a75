"""A look: all visits of some rounds, in one compiled loop or step by step."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build
from kernels.devices.base import Elapsed
from kernels.variant import Entry, Launch

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.problem import Array

SOURCE = Path(__file__).with_name("loop.c")
PYTHON = Path(__file__).with_name("python_call.c")


@dataclass(frozen=True)
class Visits:
    """A look's plan. Per visit: which case; per case: launches in a visit, untimed calls before it,
    whether each launch takes a placement of its own (`cold`), the label by which a crash is told, and
    whether the caller's time is asked for rather than the device's (`on_host`).

    `places[v]` are the operands' addresses of visit v in order, for each of its placements.
    """

    which: Array
    places: list[Array]
    launches: Sequence[int]
    warm: Sequence[int]
    cold: Sequence[bool]
    labels: Sequence[int]
    on_host: Sequence[bool] = ()


@dataclass(frozen=True)
class Timed:
    """Seconds of each visit, all its launches together; the share of it that was lost to others."""

    wall: Array
    cpu: Array
    lost: Array


class _Entry(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_void_p),
        ("argument", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("slot_count", "launches", "warm", "step", "label")),
        ("single", ctypes.c_void_p),
        ("single_offset", ctypes.c_int64),
    )


class _Callable(ctypes.Structure):
    _fields_ = (("callable", ctypes.c_void_p), ("stop", ctypes.c_void_p))


STOP = ctypes.c_int32(0)  # set by a Python launch that raised


def python_entry(launch: Launch) -> Entry:
    """The entry of a launch that only Python can call; its one slot is the callable itself."""
    function = build.address(PYTHON, "call_python")
    return Entry(function, _Callable(id(launch.call), ctypes.addressof(STOP)), (0,), (launch,))


@functools.cache
def _runner() -> Any:
    # PyDLL: entries may call Python, and an error they leave is raised when the look returns.
    function = ctypes.PyDLL(str(build.shared(SOURCE))).run_look
    function.restype = None
    return function


def compiled(entries: Sequence[Entry], visits: Visits, running: int, process: bool) -> Timed:
    """The look in micro/loop.c. `running`: address of the 32-bit cell that names the case under way."""
    import numpy as np

    slots = [np.array(entry.slots, np.int64) for entry in entries]
    table = (_Entry * len(entries))()
    for i, entry in enumerate(entries):
        step = len(entry.slots) if visits.cold[i] else 0
        single = entry.single or (entry.function, 0)
        table[i] = _Entry(
            entry.function, ctypes.addressof(entry.argument), slots[i].ctypes.data, len(entry.slots),
            visits.launches[i], visits.warm[i], step, visits.labels[i], *single,
        )  # fmt: skip
    which = np.ascontiguousarray(visits.which, np.int32)
    lengths = [len(place) for place in visits.places]
    start = np.cumsum([0, *lengths[:-1]], dtype=np.int64)
    addresses = np.concatenate(visits.places).astype(np.int64) if visits.places else np.zeros(0, np.int64)
    wall, cpu = np.empty(len(which)), np.empty(len(which))
    pointer = ctypes.c_void_p
    STOP.value = 0
    _runner()(
        ctypes.byref(table), ctypes.c_int64(len(which)), pointer(which.ctypes.data), pointer(start.ctypes.data),
        pointer(addresses.ctypes.data), pointer(wall.ctypes.data), pointer(cpu.ctypes.data),
        ctypes.c_int32(process), pointer(running), ctypes.byref(STOP),
    )  # fmt: skip
    return Timed(wall, cpu, 1 - cpu / wall)


def stepwise(device: Device, launches: Sequence[Sequence[Launch]], visits: Visits) -> Timed:
    """The look call by call, for devices without a compiled loop. `launches[v]` are visit v's, one a placement.

    The order of a visit: two launches to warm up (or a flush), then everything is enqueued behind a held
    stream, so that no launch gap falls between the two marks. A throttled visit counts as lost.
    """
    import numpy as np

    wall, cpu, lost = np.empty((3, len(visits.which)))
    for v, case in enumerate(visits.which):
        bound = launches[v]
        for _ in range(visits.warm[case]):
            bound[0].call()
        if visits.cold[case]:
            device.flush()
        device.sync()
        run = device.repeat(bound[0], visits.launches[case])
        on_host = device.kind == "cuda" and bool(visits.on_host) and visits.on_host[case]
        elapsed = _called(device, run) if on_host else _held(device, run)
        wall[v], cpu[v] = elapsed.wall, elapsed.cpu
        lost[v] = 1.0 if elapsed.throttled else 0.0 if np.isnan(elapsed.cpu) else 1 - cpu[v] / wall[v]
    return Timed(wall, cpu, lost)


def _held(device: Device, run: Callable[[], object]) -> Elapsed:
    """What the device takes for it, by its own marks."""
    device.hold()
    start = device.mark()
    run()
    end = device.mark()
    device.release()
    device.sync()
    return device.between(start, end)


def _called(device: Device, run: Callable[[], object]) -> Elapsed:
    """What its caller takes to enqueue it, while the device works on."""
    wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
    run()
    ended = time.perf_counter_ns(), time.thread_time_ns()
    device.sync()
    return Elapsed((ended[0] - wall) * 1e-9, (ended[1] - cpu) * 1e-9)
