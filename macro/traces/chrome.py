"""Reader of GPU work in PyTorch profiler traces: Chrome's trace format with kineto's categories."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.errors import UsageError

KINDS = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "clear"}
LAUNCHES = ("cuda_runtime", "cuda_driver")  # host calls, each with the correlation id of the work that it enqueued
STEP = re.compile(r"ProfilerStep#\d+")  # annotation of a step by torch.profiler's schedule
LINKED = re.compile(r"HtoD|DtoH")  # copies between host and device
NS = 1000  # nanoseconds in a microsecond, the unit of the format


@dataclass(frozen=True)
class Work:
    """A kernel, copy or clear on a GPU's stream."""

    name: str
    kind: str  # kernel, copy or clear
    device: int
    stream: int
    start: int  # nanoseconds, like end
    end: int
    launched: int | None = None  # nanoseconds at which the host enqueued it; None: not recorded
    nbytes: int = 0  # of a copy
    linked: bool = False  # whether it is a copy between host and device


@dataclass(frozen=True)
class Device:
    """A GPU and its work."""

    name: str
    work: Sequence[Work]


@dataclass(frozen=True)
class Trace:
    """The GPUs of a trace with their work, and the program's steps."""

    devices: Sequence[Device]
    steps: Sequence[tuple[int, int]] = ()  # start and end on the host; empty if the program marks no steps


def read(path: Path, step: str = "") -> Trace:
    """Read a trace; `step`: the annotation around a step, default ProfilerStep#N. Raises UsageError."""
    trace = _loaded(path)
    try:
        return _trace(trace, path, step)
    except KeyError as error:
        raise UsageError(f"{path}: a GPU event lacks {error}") from None
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{path}: invalid event: {error}") from None


def _trace(trace: dict[str, Any], path: Path, step: str) -> Trace:
    """Convert a trace's JSON. Raises UsageError without GPU work or step, others if malformed."""
    events = [
        x for x in trace["traceEvents"] if isinstance(x, dict) and x.get("ph") == "X" and "ts" in x and "dur" in x
    ]
    if not any(x.get("cat") in KINDS for x in events):
        raise UsageError(f"{path}: the trace has no GPU work: profile with ProfilerActivity.CUDA")
    zero = min(float(x["ts"]) for x in events)  # small numbers: a double has no nanoseconds of a year
    calls = {
        x["args"]["correlation"]: (_began(x, zero), _ended(x, zero))
        for x in events
        if x.get("cat") in LAUNCHES and "correlation" in x.get("args", {})
    }
    work = [_work(x, zero, calls) for x in events if x.get("cat") in KINDS]
    steps = _outermost(
        (_began(x, zero), _ended(x, zero))
        for x in events
        if x.get("cat") == "user_annotation" and (x.get("name") == step if step else STEP.fullmatch(str(x.get("name"))))
    )
    if step and not steps:
        there = dict.fromkeys(str(x.get("name")) for x in events if x.get("cat") == "user_annotation")
        raise UsageError(f"--step {step}: this trace has {', '.join(there) or 'no annotation'}")
    names = {x["id"]: str(x["name"]) for x in trace.get("deviceProperties") or () if "id" in x and "name" in x}
    devices = [
        Device(names.get(number, f"device {number}"), [x for x in work if x.device == number])
        for number in sorted({x.device for x in work})
    ]
    return Trace(devices, steps)


def _outermost(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Drop spans that begin inside another span: an annotation may be nested in one of the same name."""
    outer: list[tuple[int, int]] = []
    for start, end in sorted(spans, key=lambda x: (x[0], -x[1])):
        if not outer or start >= outer[-1][1]:
            outer.append((start, end))
    return outer


def _loaded(path: Path) -> dict[str, Any]:
    """Load a trace's JSON, compressed or not. Raises UsageError if it is no trace."""
    try:
        data = path.read_bytes()
        trace = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except (ValueError, EOFError, zlib.error, RecursionError) as error:
        raise UsageError(f"{path}: not a trace: {error}") from None
    if isinstance(trace, list):  # the format's other form
        trace = {"traceEvents": trace}
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        raise UsageError(f"{path}: not a profiler's trace: traceEvents missing")
    return trace


def _work(event: dict[str, Any], zero: float, calls: dict[Any, tuple[int, int]]) -> Work:
    """Convert an event to work; `launched` is when a copy's host call begins, or when a kernel's ends."""
    args, kind, name = event["args"], KINDS[event["cat"]], str(event["name"])
    call = calls.get(args.get("correlation"))
    return Work(
        name,
        kind,
        int(args["device"]),
        int(args["stream"]),
        _began(event, zero),
        _ended(event, zero),
        None if call is None else call[kind == "kernel"],
        int(args.get("bytes", 0)),
        kind == "copy" and LINKED.search(name) is not None,
    )


def _began(event: dict[str, Any], zero: float) -> int:
    return round((float(event["ts"]) - zero) * NS)


def _ended(event: dict[str, Any], zero: float) -> int:
    if float(event["dur"]) < 0:
        raise ValueError(f"dur {event['dur']}")
    return round((float(event["ts"]) - zero + float(event["dur"])) * NS)
