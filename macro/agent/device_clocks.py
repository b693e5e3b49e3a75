"""Clocks of devices that execute steps asynchronously; the host waits only after a block's last step.

`begin` waits for earlier work; `mark` is called after each step; `end` waits and returns the device's nanoseconds
between successive marks, or None if the device has no such clock.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from typing import Any

import recorder  # of the core

FIRST = 2  # warm-up steps under a profiler, which initializes in the first step
STEPS = "kernelgap steps"  # annotation around the profiled steps, until the last is done
STREAM = 7  # number of a stand-in's only stream
NAMES = {"element-wise": "elementwise_kernel", "update": "sgd_update"}  # CUDA kernels' names of these kinds of work


class Events:
    """Clock by CUDA events of PyTorch, in the stream of its steps."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.marks = torch, list[Any]()

    def begin(self) -> None:
        self.torch.cuda.synchronize()
        self.marks = []
        self.mark()

    def mark(self) -> None:
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        self.marks.append(event)

    def end(self) -> list[Any]:
        self.torch.cuda.synchronize()
        return [int(1e6 * a.elapsed_time(b)) for a, b in zip(self.marks, self.marks[1:])]

    def peak(self) -> Any:
        """Return the peak bytes of PyTorch's arrays on the device."""
        return self.torch.cuda.max_memory_allocated()


class Marks:
    """Clock by marks in the stream of a device of the suite."""

    def __init__(self, device: Any) -> None:
        self.device, self.marks, self.most = device, list[Any](), 0
        self.pool = device.cp.get_default_memory_pool()

    def begin(self) -> None:
        self.device.sync()
        self.marks = []
        self.mark()

    def mark(self) -> None:
        self.marks.append(self.device.mark())
        self.most = max(self.most, self.pool.used_bytes())

    def end(self) -> list[Any]:
        self.device.sync()
        return [int(1e9 * self.device.between(a, b).wall) for a, b in zip(self.marks, self.marks[1:])]

    def peak(self) -> Any:
        """Return the peak bytes of arrays at the ends of steps; arrays freed within a step do not count."""
        return self.most


class Waits:
    """Clock of a device without readable times: only waits, by `wait`, until all work is done."""

    def __init__(self, wait: Callable[[], object], peak: Callable[[], int]) -> None:
        self.wait, self.peak = wait, peak

    def begin(self) -> None:
        self.wait()

    def mark(self) -> None:
        pass

    def end(self) -> None:
        self.wait()


class Played:
    """Clock of a simulated device, for tests: the CPU's."""

    def begin(self) -> None:
        self.marks = [time.perf_counter()]

    def mark(self) -> None:
        self.marks.append(time.perf_counter())

    def end(self) -> list[Any]:
        return [int(1e9 * (b - a)) for a, b in zip(self.marks, self.marks[1:])]

    def peak(self) -> int:
        return 0


def play(steps: Any, call: Callable[..., Any], count: int, path: str) -> None:
    """Write a trace of `count` calls on a simulated device, in Chrome's format; `steps`: their recorder."""
    began = recorder.now()
    spans = steps.trace(lambda: [call() for _ in range(count)])
    ended = recorder.now()
    events = [event(began, began, ended, "user_annotation", STEPS, {})]
    for i, span in enumerate(spans):
        start, name = span["start"], span["column"] or span["name"]
        where = {"device": 0, "stream": STREAM, "correlation": i}
        events.append(event(began, start, start, "cuda_runtime", "launch", {"correlation": i}))
        events.append(event(began, start, span["end"], "kernel", NAMES.get(name, name), where))
    document = {"traceEvents": events, "deviceProperties": [{"id": 0, "name": "stand-in"}]}
    with gzip.open(path, "wb") as stream:
        stream.write(json.dumps(document).encode("utf-8"))


def event(zero: int, start: int, end: int, category: str, name: str, args: Any) -> dict[str, Any]:
    """Return an event in Chrome's format, in microseconds since `zero`; arguments are in nanoseconds."""
    span = {"ts": (start - zero) * 1e-3, "dur": (end - start) * 1e-3}
    return dict(span, ph="X", cat=category, name=name, args=args)
