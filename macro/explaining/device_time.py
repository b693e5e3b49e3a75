"""Time of a GPU by activity: kernels, copies not overlapped by kernels, and idle time by its cause.

`macro explain TRACE.json.gz` reports it from a profiler's trace, recorded on any machine."""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.errors import UsageError

if TYPE_CHECKING:
    from macro.traces.chrome import Device, Work

Span = tuple[int, int]
NS = 1e-9


@dataclass(frozen=True)
class Kernel:
    """All calls of a GPU kernel, summed by kernel name."""

    kind: str
    name: str
    calls: int
    seconds: float
    short: str  # the name without arguments and template parameters


@dataclass(frozen=True)
class Account:
    """Seconds of a device by activity, summed over the windows (steps) of a trace."""

    name: str
    steps: int
    seconds: float  # of all windows
    kernels: float  # at least one kernel runs, on any stream
    exposed: float  # copies and clears while no kernel runs
    linked: float  # the part of `exposed` in copies between host and device
    unlaunched: float  # idle, before the host enqueued the next work
    starting: float  # idle, from the enqueueing of the next work until its start
    untold: float  # idle, where the launch of the next work is not recorded
    each: Sequence[Kernel]  # the longest first
    copied: int  # bytes
    streams: dict[int, float]  # busy seconds of each stream

    @property
    def idle(self) -> float:
        """Seconds in which nothing ran."""
        return self.unlaunched + self.starting + self.untold


def account(device: Device, steps: Sequence[Span] = ()) -> Account:
    """Account for the device's time in the host's steps; without steps, from its first work to its last."""
    windows = steps or [time_range([device])]
    kernels = busy = linked = 0
    unlaunched = starting = untold = 0
    streams = defaultdict[int, int](int)
    inside: list[tuple[Work, Span]] = []
    for window in windows:
        work = [x for x in device.work if x.end > window[0] and x.start < window[1]]
        kernels += _length(_clipped((x for x in work if x.kind == "kernel"), window))
        linked += _length(_clipped((x for x in work if x.kind == "kernel" or x.linked), window))
        busy += _length(_clipped(work, window))
        following = min((x for x in device.work if x.start >= window[1]), key=lambda x: x.start, default=None)
        idle = _idle([*work, *([following] if following else [])], window)
        unlaunched, starting, untold = unlaunched + idle[0], starting + idle[1], untold + idle[2]
        for stream in {x.stream for x in work}:
            streams[stream] += _length(_clipped((x for x in work if x.stream == stream), window))
        inside += [(x, span) for x, span in zip(work, _clipped(work, window), strict=True)]
    return Account(
        device.name,
        len(windows),
        NS * sum(end - start for start, end in windows),
        NS * kernels,
        NS * (busy - kernels),
        NS * (linked - kernels),
        NS * unlaunched,
        NS * starting,
        NS * untold,
        _kernels(inside),
        sum(x.nbytes for x, span in inside if x.kind == "copy" and x.start == span[0]),
        {stream: NS * took for stream, took in sorted(streams.items())},
    )


def time_range(devices: Sequence[Device]) -> Span:
    """Return the span from the start of the first work on any device to the end of the last."""
    return min(x.start for y in devices for x in y.work), max(x.end for y in devices for x in y.work)


def _clipped(work: Iterable[Work], window: Span) -> list[Span]:
    return [(max(x.start, window[0]), min(x.end, window[1])) for x in work]


def _length(spans: Iterable[Span]) -> int:
    """Return the length of all spans, overlaps counted once."""
    return sum(end - start for start, end in _union(spans))


def _union(spans: Iterable[Span]) -> list[Span]:
    """Merge overlapping spans and sort them."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _idle(work: Sequence[Work], window: Span) -> tuple[int, int, int]:
    """Split idle time by the next work's state: not enqueued yet, enqueued, or unknown (or no next work)."""
    past, gaps = window[0], [0, 0, 0]
    for item in sorted(work, key=lambda x: x.start):
        gap = min(item.start, window[1]) - past
        if gap > 0:
            if item.launched is None:
                gaps[2] += gap
            else:
                late = min(max(item.launched - past, 0), gap)
                gaps[0] += late
                gaps[1] += gap - late
        past = max(past, item.end)
    unlaunched, starting, untold = gaps
    return unlaunched, starting, untold + max(0, window[1] - past)


def _kernels(inside: Iterable[tuple[Work, Span]]) -> list[Kernel]:
    """Sum calls and seconds in the windows by kernel name, the longest first."""
    from macro.explaining.kinds import of_kernel

    calls, took = defaultdict[str, int](int), defaultdict[str, int](int)
    for item, (start, end) in inside:
        if item.kind == "kernel":
            calls[item.name] += item.start == start
            took[item.name] += end - start
    kernels = [Kernel(of_kernel(name), name, calls[name], NS * long, short(name)) for name, long in took.items()]
    return sorted(kernels, key=lambda x: -x.seconds)


def short(name: str) -> str:
    """Return a kernel's name without arguments and template parameters, except a PyTorch functor."""
    plain = re.sub(r"^(void|static) ", "", name)
    head = re.split(r"[<(]", plain.replace("(anonymous namespace)::", ""), maxsplit=1)[0]
    functor = re.search(r"(\w+(?:Functor|Op|Ops|_impl))\b", plain[len(head) :])
    return f"{head} {functor[1]}" if functor else head


ABOUT = "`macro explain TRACE.json.gz`: where the time of a GPU goes, by a profiler's trace from any machine."
HEAD = 1 << 20  # bytes of a file in which a trace has the key of events; no network's is as long


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    from reports.parser import OneLineParser

    options = OneLineParser("python -m macro explain", description=ABOUT, allow_abbrev=False)
    options.add_argument("trace", metavar="TRACE.json[.gz]", type=Path, help="trace exported by torch.profiler")
    options.add_argument("--step", default="", metavar="NAME", help="annotation around each step (the profiler's)")
    options.add_argument("--json", metavar="FILE", help="write the result as JSON (- is stdout)")
    return options


def is_trace(argv: Sequence[str]) -> bool:
    """Return whether the first positional argument names a trace, and not a network such as `net.json`.

    A trace is compressed, or JSON that has the key "traceEvents", is a bare list or is long."""
    valued = {name for action in parser()._actions if action.nargs != 0 for name in action.option_strings}
    words = [word for before, word in zip(["", *argv], argv, strict=False) if before not in valued]
    first = Path(next((word for word in words if not word.startswith("-")), ""))
    try:
        with first.open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return first.name.endswith(".json.gz")
    marked = b'"traceEvents"' in head or head.lstrip().startswith(b"[") or len(head) == HEAD
    return head.startswith(b"\x1f\x8b") or (first.suffix == ".json" and marked)


def main(argv: Sequence[str]) -> int:
    """Run the command; return the exit code. Raises UsageError."""
    from macro.traces import chrome
    from micro.command.outputs import for_people, open_outputs
    from micro.planning.options import Outputs
    from reports import device, documents

    words = parser().parse_args(argv)
    if words.json and Path(words.json).exists() and words.trace.exists() and words.trace.samefile(words.json):
        raise UsageError(f"--json {words.json}: is the trace itself; name another file")
    outputs = Outputs(documents={"json": words.json} if words.json else {})
    with ExitStack() as stack:
        opened = open_outputs(outputs, stack)
        trace = chrome.read(words.trace, words.step)
        windows = trace.steps or [time_range(trace.devices)]
        accounts = [asdict(account(x, windows)) for x in trace.devices]
        print("\n".join(device.text(accounts)), file=for_people(outputs))
        for stream in opened.values():
            try:
                json.dump({"trace": str(words.trace), "step": words.step, "devices": accounts}, stream, indent=1)
                stream.write("\n")
                documents.finish(stream)
            except OSError as error:
                raise UsageError(f"--json {words.json}: {error.strerror or error}") from None
    return 0
