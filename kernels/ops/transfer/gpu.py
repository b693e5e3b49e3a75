"""Copies between a GPU's memory and the host's by cudaMemcpyAsync.

A checked round trip copies x to the host and back to y; in its place one direction is timed, or both concurrently
on two streams. A copy from or to pageable memory waits for its stream, which therefore must not be held: its
time is its caller's.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kernels.launch import Bind, Launch, in_turn
from kernels.lazy import np
from kernels.libs import cublas, pycuda
from kernels.ops.gemm.cublas import addresses, call_of
from kernels.ops.gemm.problem import Gemm
from kernels.ops.transfer.problem import Transfer

TO_DEVICE, TO_HOST, WITHIN = 1, 2, 3  # cudaMemcpyKind
# Page-locked; page-locked and write-combined; registered in place; by PyCUDA's allocator; by CuPy's pool; not locked
KINDS = ("pinned", "combined", "registered", "pycuda", "cupy", "pageable")
POOLED = 512  # least bytes of an allocation in CuPy's pool
WAYS = ("h2d", "d2h", "both")
TIES = 4  # event records and waits (two each) that synchronize a second stream with the first


class Host:
    """Resident host memory of one of KINDS, released with the object."""

    def __init__(self, device: Any, kind: str, nbytes: int) -> None:
        runtime = device.cp.cuda.runtime
        if kind in ("registered", "pageable"):
            self.block = np.ones(nbytes, np.uint8)
            self.place = int(self.block.ctypes.data)
            if kind == "pageable":
                return
            runtime.hostRegister(self.place, nbytes, 0)
            give_back = runtime.hostUnregister
        elif kind == "pycuda":  # which releases it itself
            self.block = pycuda.load().pagelocked_empty(nbytes, "u1")
            self.place = int(self.block.ctypes.data)
            self.block.fill(1)
            return
        elif kind == "cupy":  # which releases it itself too
            self.pooled = device.cp.cuda.alloc_pinned_memory(max(nbytes, POOLED))
            self.place = int(self.pooled.ptr)
            ctypes.memset(self.place, 1, nbytes)
            return
        else:  # not CuPy's pool, which rounds sizes up to powers of two
            flag = runtime.hostAllocWriteCombined if kind == "combined" else runtime.hostAllocDefault
            self.place = int(runtime.hostAlloc(nbytes, flag))
            ctypes.memset(self.place, 1, nbytes)
            give_back = runtime.freeHost
        weakref.finalize(self, give_back, self.place).atexit = False  # at exit the context may be gone


def round_trip(kind: str, problem: Transfer, device: Any, setting: object) -> Bind:
    """Prepare copies of x to the host and from there to y."""
    host = Host(device, kind, problem.size)

    def bind(buffers: Sequence[Any]) -> Launch:
        x, y = (int(buffer.data.ptr) for buffer in buffers)
        steps = [*enqueued(device, problem, host.place, x, TO_HOST), *enqueued(device, problem, y, host.place)]
        return _launch(steps, (host, *buffers), kind)

    return bind


def alone(kind: str, way: str, problem: Transfer, device: Any, setting: object) -> Bind:
    """Prepare copies in the direction `way` with separate host memory; a caller's time includes the wait."""
    bind = _one_way(kind, way, problem, device)
    return (lambda buffers: awaited(bind(buffers), device)) if problem.on_host else bind


def awaited(launch: Launch, device: Any) -> Launch:
    """Return a synchronous launch, whose call returns when the device has finished."""

    def call() -> None:
        launch.call()
        device.sync()

    return Launch(call, kernels=launch.kernels)


def _one_way(kind: str, way: str, problem: Transfer, device: Any) -> Bind:
    there, back = Host(device, kind, problem.size), Host(device, kind, problem.size) if way == "both" else None
    side = Side(device) if way == "both" else None

    def bind(buffers: Sequence[Any]) -> Launch:
        x, y = (int(buffer.data.ptr) for buffer in buffers)
        down, up = enqueued(device, problem, y, there.place), enqueued(device, problem, there.place, x, TO_HOST)
        keep = (there, back, *buffers)
        if back is None or side is None:
            return _launch(down if way == "h2d" else up, keep, kind)
        return side.at_once(down, enqueued(device, problem, back.place, x, TO_HOST, side.stream), keep)

    return bind


class Side:
    """A second stream, forked from the device's and joined by events; a variant's launches share it.

    The hardware has few queues for streams.
    """

    def __init__(self, device: Any) -> None:
        cuda = device.cp.cuda
        self.device, self.stream = device, cuda.Stream(non_blocking=True)
        self.begun, self.ended = (cuda.Event(disable_timing=True) for _ in range(2))

    def at_once(self, down: list[Callable[[], object]], up: list[Callable[[], object]], keep: object) -> Launch:
        """Return a launch of `down` on the device's stream and concurrently of `up` on this stream."""

        def call(keep: object = keep) -> None:
            self.begun.record(self.device.stream)
            self.stream.wait_event(self.begun)
            for step in (*up, *down):
                step()
            self.ended.record(self.stream)
            self.device.stream.wait_event(self.ended)

        return Launch(call, kernels=len(down) + len(up) + TIES)


def enqueued(
    device: Any, problem: Transfer, to: int, source: int, kind: int = TO_DEVICE, stream: Any = None
) -> list[Callable[[], object]]:
    """Return one copy for each buffer between two addresses; buffers are contiguous on both sides."""
    copy, on, at = device.cp.cuda.runtime.memcpyAsync, (stream or device.stream).ptr, 0
    steps: list[Callable[[], object]] = []
    for length in problem.lengths:
        steps.append(partial(copy, to + at, source + at, 4 * length, kind, on))
        at += 4 * length
    return steps


def _launch(steps: list[Callable[[], object]], keep: tuple[object, ...], kind: str = "") -> Launch:
    """Return the launch of `steps`; pageable copies wait for their stream and cannot be captured."""
    return Launch(in_turn(steps, keep), capturable=kind != "pageable", kernels=len(steps))


def within(problem: Transfer, device: Any, setting: object) -> Bind:
    """Prepare copies from x to y within the device's memory."""

    def bind(buffers: Sequence[Any]) -> Launch:
        x, y = (int(buffer.data.ptr) for buffer in buffers)
        return _launch(enqueued(device, problem, y, x, WITHIN), tuple(buffers))

    return bind


def by_cupy(problem: Transfer, device: Any, setting: object) -> Bind:
    """Prepare cupy.copyto of one buffer."""

    def bind(buffers: Sequence[Any]) -> Launch:
        x, y = buffers
        return Launch(partial(device.cp.copyto, y, x), kernels=1)

    return bind


SQUARE = Gemm(1024, 1024, 1024)
FLOPS = 1000  # of the products per byte copied: about as many as a GPU computes while a byte is copied


def count(problem: Transfer) -> int:
    """Return the number of products that run concurrently with a copy."""
    return max(1, round(FLOPS * problem.size / SQUARE.flops))


def products(problem: Transfer, device: Any, setting: object) -> Bind:
    """Prepare the products alone."""
    many, multiply, keep = count(problem), *_product(device)
    call = in_turn([multiply] * many, keep)
    return lambda buffers: Launch(call, capturable=True, kernels=cublas.KERNELS * many)


def both(problem: Transfer, device: Any, setting: object) -> Bind:
    """Prepare the products and, concurrently, the copy."""
    many, multiply, keep = count(problem), *_product(device)
    host, side = Host(device, "pinned", problem.size), Side(device)

    def bind(buffers: Sequence[Any]) -> Launch:
        _, y = addresses(buffers)
        copies = enqueued(device, problem, y, host.place, TO_DEVICE, side.stream)
        launch = side.at_once([multiply] * many, copies, (host, keep, *buffers))
        return replace(launch, kernels=cublas.KERNELS * many + len(copies) + TIES)

    return bind


def _product(device: Any) -> tuple[Callable[[], object], object]:
    """Return a call of the product on normally distributed numbers, and its operands, to be kept alive."""
    rng = np.random.default_rng(0)
    views = [device.view(device.allocate(x.nbytes), 0, x) for x in SQUARE.operands()]
    for view in views:
        device.put(view, rng.standard_normal(view.shape, np.float32))
    return call_of(device.blas(), SQUARE, addresses(views)), views
