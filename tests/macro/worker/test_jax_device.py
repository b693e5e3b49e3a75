"""What JAX's profiler writes of a GPU, as a trace of Chrome's format: streams, copies, clears, launches, by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from macro.running.on_device import NAME
from macro.traces import chrome
from tests.macro.worker.test_spans_xla import message

pytestmark = pytest.mark.usefixtures("beside")
EPOCH = 1_764_000_000_000_000_000  # nanoseconds of today: a double has every 256th
KINDS = ["correlation_id", "memcpy_details", "hlo_op", "kernel_details", "Memset_details"]


def event(number: int, start: int, took: int, *stats: bytes) -> bytes:
    """`start`, `took`: nanoseconds."""
    return message((1, number), (2, 1000 * start), (3, 1000 * took), *((4, one) for one in stats))


def line(number: int, title: str, *events: bytes) -> bytes:
    return message((1, number), (2, title), (3, EPOCH), *((4, one) for one in events))


def plane(title: str, names: list[str], *lines: bytes) -> bytes:
    entries = [(4, message((1, i), (2, message((1, i), (2, name))))) for i, name in enumerate(names)]
    entries += [(5, message((1, i), (2, message((1, i), (2, name))))) for i, name in enumerate(KINDS)]
    return message((2, title), *((3, one) for one in lines), *entries)


def correlation(number: int) -> bytes:
    return message((1, 0), (3, number))


def detail(number: int, text: str = "dest:0") -> bytes:
    return message((1, number), (5, text))


def space() -> bytes:
    """A kernel of 1,003 ns that waits 17 for its launch, a copy from the host, a clear, a sum of the profiler's."""
    host = plane(
        "/host:CPU",
        [NAME, "sgemm", "another kernel", "MemcpyH2D"],
        line(
            1,
            "python",
            event(0, 0, 10_000),
            event(1, 100, 50, correlation(5)),
            event(2, 160, 5, correlation(6)),
            event(3, 170, 5, correlation(7)),
        ),
    )
    gpu = plane(
        "/device:GPU:0",
        ["sgemm", "MemcpyH2D", "Memset", "jit_step", "CudaGraphExec:3"],
        line(
            14,
            "CUPTI overhead",
            event(0, 167, 1003, correlation(5), detail(3, "regs:32")),
            event(2, 2000, 40, detail(4)),
            event(4, 150, 1100, correlation(5)),
        ),
        line(15, "Stream #15(MemcpyH2D)", event(1, 500, 200, detail(1, "kind_src:pinned size:4096 dest:0"))),
        line(99, "XLA Modules", event(3, 0, 9000)),
    )
    other = plane("/device:GPU:1", [])  # XLA has a plane for each, with work or without
    return message((1, host), (1, gpu), (1, other))


def test_a_gpu_s_streams_are_read_as_pytorch_s_profiler_has_them(tmp_path: Path) -> None:
    import jax_trace  # type: ignore[import-not-found]
    import xplane  # type: ignore[import-not-found]

    told = jax_trace.trace(list(xplane.planes(space())), "a card")
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(told).encode()))
    read = chrome.read(path, NAME)
    ((start, end),) = read.steps
    assert end - start == 10_000
    (device,) = read.devices
    assert device.name == "a card"
    kernel, copy, clear = sorted(device.work, key=lambda one: one.start)
    assert (kernel.name, kernel.kind, kernel.stream, kernel.end - kernel.start) == ("sgemm", "kernel", 14, 1003)
    assert kernel.launched is not None and kernel.start - kernel.launched == 17
    assert (copy.name, copy.kind, copy.nbytes, copy.linked, copy.stream) == ("Memcpy HtoD", "copy", 4096, True, 15)
    assert (clear.kind, clear.end - clear.start, clear.launched) == ("clear", 40, None)


def test_on_a_stand_in_operations_are_kernels() -> None:
    import jax_trace
    import xplane

    operation = message((1, 2), (5, "dot.3"))
    host = plane(
        "/host:CPU", [NAME, "dot.3"], line(1 << 40, "tf_Compute", event(0, 0, 900), event(1, 5, 70, operation))
    )
    told = jax_trace.trace(list(xplane.planes(message((1, host)))), None)
    kinds = [(one["cat"], one["name"]) for one in told["traceEvents"]]
    assert kinds == [("user_annotation", NAME), ("kernel", "dot.3")]
    assert told["deviceProperties"] == [{"id": 0, "name": "stand-in"}]
