"""Reader of profiles in xplane files, and spans of their operations, including work in thread pools.

JAX and TensorFlow write the same format (tsl/profiler/protobuf/xplane.proto), but have no reader in common.
"""

from __future__ import annotations

import bisect
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import recorder  # beside this file

POOL = "ThreadpoolListener::"  # Record: a task is created; StartRegion, StopRegion: the task runs
BITS = (1 << 64) - 1
# Constants of MurmurHash64A (std::hash): a trace identifies a thread by the hash of its pthread_t.
UNMULTIPLY, SEED, EIGHT = 0x5F7A0EA7E59B19BD, 0xC70F6907, 8 * 0xC6A4A7935BD1E995 & BITS


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[Any]:
    """Yield (number, value) of each protobuf field of a message: an integer, a double or bytes."""
    at, end = 0, len(data)
    value: Any
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"not an xplane: wire type {kind}")
        yield key >> 3, value


def _parts(data: bytes) -> dict[int, list[Any]]:
    """Return the values of a protobuf message by field number."""
    values = dict[int, list[Any]]()
    for number, value in _fields(data):
        values.setdefault(number, []).append(value)
    return values


def _text(parts: dict[int, list[Any]], number: int) -> str:
    return str(parts.get(number, [b""])[0], "utf-8", "replace")


def _names(entries: Any) -> dict[int, str]:
    """Return {id: name} of a plane's metadata map."""
    names = {}
    for entry in entries:
        value = _parts(_parts(entry).get(2, [b""])[0])
        names[value.get(1, [0])[0]] = _text(value, 2)
    return names


def _stats(entries: Any, names: Any) -> dict[Any, Any]:
    stats = {}
    for entry in entries:
        fields = dict(_fields(entry))
        name = names.get(fields.pop(1, 0))
        for kind, value in fields.items():
            if kind == 7:
                value = names.get(value, "")
            stats[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return stats


def lines(data: bytes) -> Iterator[Any]:
    """Yield (number, events) of all lines of all planes; on a CPU the number is the thread's."""
    for _, in_plane in planes(data):
        yield from in_plane


def planes(data: bytes) -> Iterator[Any]:
    """Yield (name, lines) of each plane.

    A line is (number, events), on a CPU with the number of its thread; an event is (start, end, name, stats), in
    nanoseconds of the profiler's clock. Events are in order of their start.
    """
    for plane in map(_parts, _parts(data).get(1, ())):
        yield _text(plane, 2), list(_lines(plane))


def _lines(plane: Any) -> Iterator[Any]:
    names, kinds = _names(plane.get(4, ())), _names(plane.get(5, ()))
    for line in map(_parts, plane.get(3, ())):
        began, events = line.get(3, [0])[0], []
        for event in map(_parts, line.get(4, ())):
            offset, took = event.get(2, [0])[0], event.get(3, [0])[0]  # integers, as doubles lose digits
            start, end = began + offset // 1000, began + (offset + took) // 1000
            stats = _stats(event.get(4, ()), kinds)
            events.append((start, end, names.get(event.get(1, [0])[0], ""), stats))
        yield line.get(1, [0])[0], sorted(events, key=lambda event: (event[0], -event[1]))


def system_thread(number: int) -> int | None:
    """Return the system's id of a trace's thread, None if unknown; inverts the hash of its pthread_t."""
    number ^= number >> 47
    number = number * UNMULTIPLY & BITS
    number ^= number >> 47
    number = (number * UNMULTIPLY & BITS) ^ (SEED ^ EIGHT)
    number = number * UNMULTIPLY & BITS
    number ^= number >> 47
    thread = number * UNMULTIPLY & BITS  # its pthread_t
    try:
        with open("/proc/self/maps") as stream:
            ranges = [[int(word, 16) for word in line.split(None, 1)[0].split("-")] for line in stream]
        if not any(start <= thread < end for start, end in ranges):
            return None
        task = ~(time.pthread_getcpuclockid(thread) >> 3)  # as Linux encodes clocks of threads
        return task if os.path.exists(f"/proc/self/task/{task}") else None
    except (AttributeError, OSError, OverflowError, ValueError):
        return None


class _Cover:
    """Intervals of a thread, with a look-up of the innermost interval at a time."""

    def __init__(self) -> None:
        self.starts, self.entries = list[int](), list[tuple[int, Any]]()

    def add(self, start: int, end: int, what: Any) -> None:
        at = bisect.bisect(self.starts, start)
        self.starts.insert(at, start)
        self.entries.insert(at, (end, what))

    def at(self, when: int) -> Any:
        for i in range(bisect.bisect(self.starts, when) - 1, -1, -1):
            end, what = self.entries[i]
            if when <= end:
                return what
        return None


def _tasks(events: Any, operations: Any) -> Iterator[Any]:
    """Yield (start, end, number) of each task that a thread ran.

    A task ends where the first operation begins inside it; work after that is not part of the task.
    """
    open_, starts = [], [start for start, _, _ in operations]
    starts = sorted(starts + [start for start, _, name, _ in events if name.startswith("end: ")])
    for start, _, name, stats in events:
        if name == POOL + "StartRegion":
            open_.append((start, stats.get("_c")))
        elif name == POOL + "StopRegion" and open_:
            began, number = open_.pop()
            at = bisect.bisect_left(starts, began)
            yield began, min([start, *starts[at : at + 1]]), number


def spans(traced: Any, operation: Callable[[str, dict[str, Any]], Any]) -> list[Any]:
    """Return (thread, start, end, what, part) of each event that `operation(name, stats)` identifies.

    A thread pool's task that was created in such an operation is a part of that operation, in whatever thread it ran.
    After the operation's end, a running task counts for another operation, if exactly one is in progress.
    """
    intervals, makers, tasks, covers, busy = (
        list[Any](),
        dict[Any, Any](),
        list[Any](),
        dict[Any, _Cover](),
        list[Any](),
    )
    ended = {
        stats.get("_c"): start for _, events in traced for start, _, name, stats in events if name.startswith("end: ")
    }
    for thread, events in traced:
        operations, cover = [], covers.setdefault(thread, _Cover())
        for start, end, name, stats in events:
            what = operation(name, stats)
            if what is not None:
                operations.append((start, end, what))
                interval: Any = (start, max(end, ended.get(stats.get("_p"), end)), what)
                cover.add(start, end, interval)
                busy += [interval] if stats.get("_p") in ended else []
            elif name == POOL + "Record":
                makers[stats.get("_p")] = (thread, start)
        intervals += [(thread, *interval, False) for interval in operations]
        tasks += [(start, end, thread, number) for start, end, number in _tasks(events, operations)]
    for start, end, thread, number in sorted(tasks):  # a task's creator began before the task
        maker, when = makers.get(number, (None, 0))
        interval = covers[maker].at(when) if maker in covers else None
        if interval is None:
            continue
        until = end if interval not in busy else max(start, min(end, interval[1]))
        pieces = [(start, until, interval)] if until > start else []
        for piece in pieces + list(_helped(until, end, [other for other in busy if other is not interval])):
            covers[thread].add(*piece)
            intervals.append((thread, piece[0], piece[1], piece[2][2], True))
    return intervals


def _helped(start: int, end: int, busy: Any) -> Iterator[Any]:
    """Yield the pieces of `start` to `end` during which exactly one operation was in progress."""
    busy = [interval for interval in busy if interval[0] < end and interval[1] > start]
    edges = sorted(set([start, end] + [x for interval in busy for x in interval[:2] if start < x < end]))
    for left, right in zip(edges, edges[1:]):
        there = [interval for interval in busy if interval[0] <= left and interval[1] >= right]
        if len(there) == 1:
            yield left, right, there[0]


def profiled(start: Callable[[str], object], stop: Callable[[], object], run: Callable[[], object]) -> bytes:
    """Profile `run` between start(folder) and stop(); return the xplane file, empty if none was written."""
    folder = tempfile.mkdtemp(prefix="kernelgap-trace-")
    try:
        start(folder)
        try:
            run()
        finally:
            stop()
        for where, _, names in os.walk(folder):
            for name in names:
                if name.endswith(".xplane.pb"):
                    with open(os.path.join(where, name), "rb") as stream:
                        return stream.read()
        return b""
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def record(
    start: Callable[[str], object],
    stop: Callable[[], object],
    annotate: Callable[[str], Any],
    run: Callable[[], object],
) -> tuple[list[Any], int]:
    """Profile `run`; return the profile's lines, and the monotonic start of its CALIBRATE annotation."""
    moments = []

    def marked() -> None:
        with annotate("warm"):
            pass
        moments.append(recorder.now())
        with annotate(recorder.CALIBRATE):
            time.sleep(0.002)
        run()

    data = profiled(start, stop, marked)
    return list(lines(data)), moments[0]


def named(
    intervals: Any, moment: int, tell: Callable[[Any], Any], multiplies: Callable[[Any], bool]
) -> list[dict[str, Any]]:
    """Convert the result of `spans` to spans of recorder.py; `what` is a name or a tuple ending in a name.

    `tell(what)`: rows and column; `multiplies(what)`: whether `what` is a product.
    """
    threads = {thread: system_thread(thread) for thread in {x[0] for x in intervals}}
    records = []
    for thread, start, end, what, part in intervals:
        rows, column = ([], None) if what == recorder.CALIBRATE else tell(what)
        name = what[-1] if isinstance(what, tuple) else what
        span = {"start": start, "end": end, "name": name, "rows": rows, "column": column}
        if part:
            span["part"] = True
        elif what != recorder.CALIBRATE and multiplies(what):
            span["product"] = 1.0
        if threads[thread] is not None:
            span["thread"] = threads[thread]
        records.append(span)
    return recorder.calibrated(records, moment) if records else []
