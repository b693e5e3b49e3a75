"""Observation of a script's steps by PyTorch's profiler, beside the script's profilers and spans."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import recorder  # beside this file
import torch_modules
from torch_modules import fast

MARKS = 9  # annotations for calibrating the clock; the shortest counts
CALIBRATE = recorder.CALIBRATE
COLUMNS = ("name", "start", "end", "thread", "sequence", "lane", "forward")


class Spans:
    """Profiler of operations and module calls; calls `foreign()` before the script's profiler starts.

    A profiler that starts while another is active replaces it and takes its events. A span that begins under a profiler
    and ends under the next writes to the first profiler's freed memory, and the process crashes; so all spans of the
    script that are open when the suite's profiler stops are ended there.
    """

    def __init__(self, torch: Any, foreign: Callable[[], object] | None = None) -> None:
        self.torch, self.modules = torch, torch_modules.Modules(torch)
        self.profiler: Any = None
        self.shapes, self.marks = False, list[tuple[int, int]]()
        self._events: Any = None
        self.starting, self.open, self.cut = False, dict[int, Any](), dict[int, Any]()
        self.thread: int | None = None
        self.kind = torch.autograd.profiler.record_function
        self.ways = self.kind.__enter__, self.kind.__exit__
        if foreign:
            self._tell(torch.autograd.profiler.profile, foreign)

    def _tell(self, kind: Any, foreign: Callable[[], object]) -> None:
        """Call `foreign` at every start of a profiler, except the suite's."""
        begin = getattr(kind, "_start_trace", None)  # PyTorch 1.8
        if begin is None:
            return

        def start_trace(profile: Any) -> Any:
            if not self.starting:
                foreign()
            return begin(profile)

        kind._start_trace = start_trace

    def start(self, shapes: Any) -> None:
        """Start the profiler; `shapes`: whether to record the shapes of every operation's inputs."""
        self.shapes, self.marks = shapes, []
        activities = [self.torch.profiler.ProfilerActivity.CPU]
        self.starting = True
        try:
            self.modules.on()
            self.profiler = self.torch.profiler.profile(activities=activities, record_shapes=shapes)
            self.profiler.start()
            for _ in range(MARKS):
                before = recorder.now()
                with fast(self.torch, CALIBRATE):
                    pass
                self.marks.append((recorder.now() - before, before))
        finally:
            self.starting = False
        self.thread = threading.get_ident()
        self.kind.__enter__ = lambda span: self._enter(span)
        self.kind.__exit__ = lambda span, *error: self._leave(span, *error)

    def stop(self) -> None:
        """Stop the profiler, also after a failed step: an active profiler crashes the process at its end."""
        if self.profiler is not None:
            self.kind.__enter__ = self.ways[0]
            while self.open:
                key, span = self.open.popitem()  # the last span first
                self.ways[1](span, None, None, None)
                self.cut[key] = span
        self.modules.off()
        if self.profiler is None:
            return
        profiler, self.profiler = self.profiler, None
        profiler.stop()
        self._events = profiler.profiler.kineto_results.events()
        self._restore()

    def _enter(self, span: Any) -> Any:
        if threading.get_ident() == self.thread:  # other threads are not profiled
            self.open[id(span)] = span
        return self.ways[0](span)

    def _leave(self, span: Any, *error: Any) -> Any:
        if self.cut.pop(id(span), None) is None:
            self.open.pop(id(span), None)
            return self.ways[1](span, *error)
        self._restore()
        return None

    def _restore(self) -> None:
        if self.profiler is None and not self.cut:
            self.kind.__exit__ = self.ways[1]

    def events(self) -> dict[str, Any]:
        """Return the events as columns, names as indices into `names`, times in monotonic nanoseconds.

        With shapes, `inputs` holds different inputs of operations, and `shapes` an index into them for each event."""
        events, self._events = self._events or [], None
        numbers, inputs = dict[str, int](), dict[str, int]()
        columns: dict[str, list[int]] = {name: [] for name in COLUMNS}
        shapes: list[int] | None = [] if self.shapes else None
        shift = self._shift(events)
        for event in events:
            name = event.name()
            if name == CALIBRATE or event.end_ns() <= event.start_ns() < 0:
                continue
            columns["name"].append(numbers.setdefault(name, len(numbers)))
            columns["start"].append(event.start_ns() + shift)
            columns["end"].append(event.end_ns() + shift)
            columns["thread"].append(event.device_resource_id())
            columns["sequence"].append(event.sequence_nr())
            columns["lane"].append(event.start_thread_id())
            columns["forward"].append(event.fwd_thread_id())
            if shapes is not None:
                shapes.append(inputs.setdefault(json.dumps(_shapes(event)), len(inputs)))
        different = [json.loads(x) for x in inputs]
        return {"names": list(numbers), "columns": columns, "shapes": shapes, "inputs": different}

    def _shift(self, events: Any) -> int:
        """Return the offset of the monotonic clock from the profiler's, in nanoseconds."""
        starts = sorted(event.start_ns() for event in events if event.name() == CALIBRATE)
        if len(starts) != len(self.marks):
            return 0
        took, before = min(self.marks)
        return int(before + took // 4 - starts[self.marks.index((took, before))])


def _shapes(event: Any) -> list[Any]:
    """Return the shapes, strides (if recorded), types and non-tensor values of an event's inputs."""
    columns = [event.structured_input_shapes() if hasattr(event, "structured_input_shapes") else event.shapes()]
    columns.append(event.structured_input_strides() if hasattr(event, "structured_input_strides") else [])
    columns.append(event.dtypes())
    columns.append(
        [value if isinstance(value, (int, float, bool, str, list)) else None for value in event.concrete_inputs()]
    )
    return columns


def on_gpu(torch: Any, optimizers: list[Any]) -> bool:
    """Return whether a parameter of the optimizers is on a GPU, or PyTorch has memory allocated there."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    if any(p.device.type == "cuda" for group in groups for p in group["params"]):
        return True
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    return any(torch.cuda.memory_allocated(gpu) for gpu in gpus)


def parameters(torch: Any, optimizers: list[Any]) -> list[list[Any]]:
    """Return [type, number of parameters, bytes of parameters] of each optimizer."""
    rows = []
    for optimizer in optimizers:
        held = [p for group in optimizer.param_groups for p in group["params"]]
        rows.append(
            [type(optimizer).__name__, sum(p.numel() for p in held), sum(p.numel() * p.element_size() for p in held)]
        )
    return rows


def identity(torch: Any) -> dict[str, Any]:
    """Return PyTorch's version, threads and flags."""
    facts = {"framework": "pytorch", "version": torch.__version__, "threads": torch.get_num_threads()}
    facts["interop_threads"] = torch.get_num_interop_threads()
    backends = getattr(torch.backends, "mkldnn", None)
    facts["flags"] = {"mkldnn": bool(backends and backends.is_available()), "capability": _capability(torch)}
    return facts


def _capability(torch: Any) -> Any:
    try:
        return torch.backends.cpu.get_cpu_capability()
    except AttributeError:
        return None
