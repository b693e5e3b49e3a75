"""Between the host and the device: sizes, kinds of host memory, both ways at once, the link."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from micro.probing import clock
from micro.probing.facts import Facts, need, package

QUESTION = "How fast is the link: by size, pinned, write-combined, registered, pageable, both ways at once?"
LIMIT = 100.0
PART = 3
RANK = 50
SIZES = tuple(1 << power for power in range(10, 29))  # 1 KiB … 256 MiB
KINDS = ("pinned", "write-combined", "registered", "pageable")
H2D, D2H = 1, 2  # cudaMemcpyKind
SHARE = 0.012  # seconds of transfers a round
COPIES = 40  # of 256 MiB: 0.2 s at 55 GB/s


def ask() -> dict[str, Any]:
    need("cupy")
    import cupy

    facts = Facts()
    facts.ask("warm", partial(clock.warm, cupy))
    facts.ask("link, idle", partial(link, cupy))
    device = cupy.empty(2 * SIZES[-1], cupy.uint8)
    for kind in KINDS:
        facts.ask(kind, partial(swept, cupy, kind, device.data.ptr))
    facts.ask("both ways, pinned", partial(both_ways, cupy, device.data.ptr))
    facts.ask("link, busy", partial(busy, cupy, device.data.ptr))
    return facts.found


@contextmanager
def host(cp: Any, kind: str, nbytes: int) -> Iterator[int]:
    """The address of host memory of a kind, its pages there."""
    import numpy as np

    runtime = cp.cuda.runtime
    if kind in ("pinned", "write-combined"):  # not CuPy's pool, which rounds sizes up to powers of two
        flag = runtime.hostAllocWriteCombined if kind == "write-combined" else runtime.hostAllocDefault
        address = runtime.hostAlloc(nbytes, flag)
        try:
            yield int(address)
        finally:
            runtime.freeHost(address)
        return
    block = np.ones(nbytes, np.uint8)
    if kind == "pageable":
        yield int(block.ctypes.data)
        return
    runtime.hostRegister(block.ctypes.data, nbytes, 0)
    try:
        yield int(block.ctypes.data)
    finally:
        runtime.hostUnregister(block.ctypes.data)


def swept(cp: Any, kind: str, device: int) -> dict[str, Any]:
    """For each size and way: µs a copy by events and by the wall clock, and GB/s by the slower of them."""
    stream = cp.cuda.Stream(non_blocking=True)
    by_size: dict[str, Any] = {}
    with host(cp, kind, SIZES[-1]) as place:
        for nbytes in SIZES:
            down = partial(cp.cuda.runtime.memcpyAsync, device, place, nbytes, H2D, stream.ptr)
            up = partial(cp.cuda.runtime.memcpyAsync, place, device, nbytes, D2H, stream.ptr)
            by_size[str(nbytes)] = {"H2D": timed(cp, down, nbytes, stream), "D2H": timed(cp, up, nbytes, stream)}
    return by_size


def timed(cp: Any, copy: Callable[[], object], nbytes: int, stream: Any) -> dict[str, float]:
    """Some copies one behind the other, and single ones that are waited for."""
    count = max(2, min(100, int(SHARE * 10e9 / nbytes)))
    events = clock.microseconds(cp, copy, count, stream, rounds=2)
    walls = []
    for _ in range(min(count, 20)):
        start = time.perf_counter()
        copy()
        issued = time.perf_counter()
        stream.synchronize()
        walls.append((time.perf_counter() - start, issued - start))
    wall, returned = min(walls)
    return {
        "us": events,
        "single us": round(wall * 1e6, 2),
        "returned us": round(returned * 1e6, 2),
        "GB/s": round(nbytes / max(events, 1e-3) / 1e3, 3),
    }


def both_ways(cp: Any, device: int) -> dict[str, Any]:
    """GB/s of each way alone, and of both together on two streams."""
    nbytes, count = SIZES[-1], 8
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    copy = cp.cuda.runtime.memcpyAsync
    with host(cp, "pinned", nbytes) as there, host(cp, "pinned", nbytes) as back:
        down = partial(copy, device, there, nbytes, H2D, streams[0].ptr)
        up = partial(copy, back, device + nbytes, nbytes, D2H, streams[1].ptr)
        return {
            name: rate(calls, streams, nbytes, count)
            for name, calls in {"H2D": [down], "D2H": [up], "together": [down, up]}.items()
        }


def rate(calls: list[Any], streams: list[Any], nbytes: int, count: int) -> float:
    for call in calls:
        call()
    for stream in streams:
        stream.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        for call in calls:
            call()
    for stream in streams:
        stream.synchronize()
    return round(len(calls) * count * nbytes / (time.perf_counter() - start) / 1e9, 2)


def busy(cp: Any, device: int) -> dict[str, Any]:
    """The link while copies run over it: an idle one goes down to a lower generation."""
    stream, nbytes = cp.cuda.Stream(non_blocking=True), SIZES[-1]
    with host(cp, "pinned", nbytes) as place:
        for _ in range(COPIES):
            cp.cuda.runtime.memcpyAsync(device, place, nbytes, H2D, stream.ptr)
        found = {**link(cp), "copies still ran": not stream.done}
        stream.synchronize()
    return found


def link(cp: Any) -> dict[str, Any]:
    """What the driver says of it, and the memory that the card is close to."""
    pynvml = package("pynvml")

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByPciBusId(cp.cuda.runtime.deviceGetPCIBusId(0).encode())
    names = ("CurrPcieLinkGeneration", "CurrPcieLinkWidth", "MaxPcieLinkGeneration", "MaxPcieLinkWidth", "PcieSpeed")
    answers = {name: answer(vars(pynvml).get(f"nvmlDeviceGet{name}"), handle) for name in names}
    bus = answer(lambda x: pynvml.nvmlDeviceGetPciInfo(x).busId, handle)
    bus = bus.decode() if isinstance(bus, bytes) else str(bus)
    node = Path("/sys/bus/pci/devices") / bus.lower()[-12:] / "numa_node"
    return {**answers, "bus": bus, "numa node": node.read_text().strip() if node.exists() else "not known"}


def answer(question: Any, handle: Any) -> Any:
    try:
        return question(handle)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
