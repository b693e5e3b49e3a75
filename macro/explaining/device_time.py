"""Where the time of a GPU goes: kernels, copies beside none, and waiting, for the host or for what was enqueued."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from macro.explaining.cuda_names import kind_of
from macro.watching.device import Device, Work

Span = tuple[int, int]
NS = 1e-9


@dataclass(frozen=True)
class Kernel:
    """All calls of one, by its name, and the kind of work that it does."""

    kind: str
    name: str
    calls: int
    seconds: float


@dataclass(frozen=True)
class Account:
    """Seconds of a device, in windows of `seconds` in all. `kernels`: in which at least one runs, on whatever stream;
    `exposed`: of copies and clears beside no kernel; the rest is idle: `unlaunched` while the host had not yet enqueued
    what comes next, `starting` from then until it began; `untold` where no launch is known. `each`: kernels, the
    longest first, `streams`: seconds in which each stream was at work."""

    name: str
    steps: int
    seconds: float
    kernels: float
    exposed: float
    unlaunched: float
    starting: float
    untold: float
    each: Sequence[Kernel]
    copied: int  # bytes
    streams: dict[int, float]

    @property
    def idle(self) -> float:
        """In which nothing ran."""
        return self.unlaunched + self.starting + self.untold


def account(device: Device, steps: Sequence[Span] = ()) -> Account:
    """While the host is in a step; without steps, from the first work to the last. A kernel counts where it begins."""
    windows = steps or [(min(x.start for x in device.work), max(x.end for x in device.work))]
    kernels = busy = 0
    unlaunched = starting = untold = 0
    streams, inside = defaultdict[int, int](int), list[Work]()
    for window in windows:
        work = [x for x in device.work if x.end > window[0] and x.start < window[1]]
        kernels += _length(_clipped((x for x in work if x.kind == "kernel"), window))
        busy += _length(_clipped(work, window))
        idle = _idle(work, window)
        unlaunched, starting, untold = unlaunched + idle[0], starting + idle[1], untold + idle[2]
        for stream in {x.stream for x in work}:
            streams[stream] += _length(_clipped((x for x in work if x.stream == stream), window))
        inside += [x for x in work if x.start >= window[0]]
    return Account(
        device.name,
        len(windows),
        NS * sum(end - start for start, end in windows),
        NS * kernels,
        NS * (busy - kernels),
        NS * unlaunched,
        NS * starting,
        NS * untold,
        _kernels(x for x in inside if x.kind == "kernel"),
        sum(x.nbytes for x in inside if x.kind == "copy"),
        {stream: NS * took for stream, took in sorted(streams.items())},
    )


def _clipped(work: Iterable[Work], window: Span) -> list[Span]:
    return [(max(x.start, window[0]), min(x.end, window[1])) for x in work]


def _length(spans: Iterable[Span]) -> int:
    """Of all, overlaps once."""
    return sum(end - start for start, end in _union(spans))


def _union(spans: Iterable[Span]) -> list[Span]:
    """Without overlaps, in order."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _idle(work: Sequence[Work], window: Span) -> tuple[int, int, int]:
    """Each gap by the work that ends it: until that was enqueued, and from then on; behind the last one, untold."""
    past, found = window[0], [0, 0, 0]
    for one in sorted(work, key=lambda x: x.start):
        gap = one.start - past
        if gap > 0:
            if one.launched is None:
                found[2] += gap
            else:
                late = min(max(one.launched - past, 0), gap)
                found[0] += late
                found[1] += gap - late
        past = max(past, one.end)
    unlaunched, starting, untold = found
    return unlaunched, starting, untold + max(0, window[1] - past)


def _kernels(work: Iterable[Work]) -> list[Kernel]:
    """By name, each whole."""
    found: dict[str, list[int]] = defaultdict(list)
    for one in work:
        found[one.name].append(one.end - one.start)
    told = [Kernel(kind_of(name), name, len(took), NS * sum(took)) for name, took in found.items()]
    return sorted(told, key=lambda x: -x.seconds)
