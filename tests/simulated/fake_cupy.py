"""CuPy's part that the cuda device uses, on host memory: one stream, two clocks, a journal.

What is enqueued waits until the stream is waited for, and behind the holding kernel until that is let go or loses
its patience. It refuses what a GPU refuses: a queue that is full stops its caller, a capture is made invalid by what
cannot be captured, an error stays (cudaError…), all as CUDA's runtime does. Our .cu kernels run on the CPU
(launcher.py); a cubin is a file with the text of its source.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.simulated import fake_arrays, launcher
from tests.simulated.fake_arrays import DeviceArray, Memory
from tests.simulated.fake_cupy_objects import (
    CLOCK,
    DEPTH,
    HANDLE,
    PAGE,
    STREAM,
    CUDARuntimeError,
    Entry,
    Event,
    Module,
    PinnedWord,
    Pooled,
    Step,
    Stream,
    run_kernel,
)


class FakeCupy:
    """The module `cupy`. `clock` is the device's, `host` its caller's, which launches (by `pace`) and waiting move."""

    uint8, float32, float64, int64, uint64, inf = np.uint8, np.float32, np.float64, np.int64, np.uint64, np.inf

    def __init__(self, free: int = 1 << 30) -> None:
        self.journal: list[str] = []
        self.started: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []  # kernels, their blocks and threads
        self.clock, self.host, self.free = 0.0, 0.0, free
        self.pace, self.depth = 0.0, DEPTH
        self.patient = False  # whether it may be waited for while it is held
        self.expired = 0  # holds that lost their patience
        self.faulty: set[str] = set()  # kernels that read where they must not
        self.stays: Exception | None = None  # an error that every later call gets
        self.queue: list[Entry] = []
        self.blocks: list[tuple[Any, int, int]] = []  # whose memory it is, its address, its bytes
        self.host_blocks: dict[int, Any] = {}  # page-locked memory by its address: itself, or its bytes
        self.cost: Callable[[str], float] = lambda name: 2e-6  # seconds of a launch by its kernel's name
        self.refuses: Exception | None = None  # what the compiler of kernels raises
        self.stream = Stream(self)
        fake_arrays.install(self)
        facts = {"name": b"Fake GPU", "major": 9, "minor": 0, "multiProcessorCount": 4, "l2CacheSize": 1 << 20}
        self.cuda = SimpleNamespace(
            Device=lambda index=0: SimpleNamespace(
                use=lambda: self.journal.append(f"use {index}"), cublas_handle=HANDLE
            ),
            Stream=lambda non_blocking: self.stream,
            Event=lambda disable_timing=False: Event(self, not disable_timing),
            get_elapsed_time=self._elapsed,
            alloc_pinned_memory=self._pinned,
            memory=SimpleNamespace(OutOfMemoryError=MemoryError),
            runtime=SimpleNamespace(
                getDeviceProperties=lambda index: facts,
                deviceGetPCIBusId=lambda index: f"0000:0{index}:00.0",
                memGetInfo=lambda: (self.free, 2 * self.free),
                driverGetVersion=lambda: 13000,
                runtimeGetVersion=lambda: 13000,
                profilerStart=lambda: self.journal.append("profile"),
                profilerStop=lambda: self.journal.append("profile no more"),
                memcpyDeviceToDevice=3,
                memcpyAsync=self._memcpy,
                hostAllocDefault=0,
                hostAllocWriteCombined=4,
                hostAlloc=self._host_alloc,
                freeHost=self.host_blocks.pop,
                hostRegister=self._host_register,
                hostUnregister=self.host_blocks.pop,
            ),
        )

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name, None)
        if not isinstance(function, np.ufunc):
            raise AttributeError(name)
        return partial(fake_arrays.ufunc, self, function)

    def _pinned(self, nbytes: int) -> Any:
        """The word that a hold looks at, or memory of copies: CuPy's pool gives more than a word."""
        if nbytes > 4:
            return Pooled(self._host_alloc(nbytes, 0), self.host_blocks)
        self.gate = np.ones(nbytes, np.uint8).view(PinnedWord)
        self.gate.ptr = self.gate.ctypes.data
        return self.gate

    @property
    def open(self) -> bool:
        return bool(np.frombuffer(self.gate, np.int32, 1)[0])

    def enqueue(self, step: Step, seconds: float = 0.0, patience: float | None = None) -> None:
        """To the stream, or to the graph that is captured. Its caller waits while the queue is full."""
        self.raise_what_stays()
        assert self.stream.current is not False, "on CuPy's null stream, not on that of the device"
        if self.stream.captured is not None:
            self.stream.captured.append((step, seconds))
            return
        self.host += self.pace
        self.advance()
        while len(self.queue) >= self.depth:
            self.host = max(self.host, self._next(wait=True))
            self.advance()
        self.queue.append(Entry(step, seconds, self.host, patience))

    def raise_what_stays(self) -> None:
        if self.stays:
            raise self.stays

    def _next(self, wait: bool = False) -> float:
        """Execute the first entry and return when it ended; a shut hold that is waited for ends with its patience."""
        first = self.queue[0]
        start = max(self.clock, first.at)
        end = start + first.seconds
        if first.patience is not None:
            end = start + first.patience
            if self.open:
                end = min(end, max(start, self.host))
            elif not wait and end > self.host:
                return math.inf
            else:
                self.expired += 1
        self.queue.pop(0)
        self.clock = end
        first.step()
        return self.clock

    def advance(self) -> None:
        """What the device has begun by now: all until it is held."""
        while self.queue and max(self.clock, self.queue[0].at) <= self.host and self._next() < math.inf:
            pass

    def run(self) -> None:
        """What the device does until it is waited for."""
        if self.stream.captured is not None:
            self.stream.invalid = True
            raise CUDARuntimeError(
                "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing"
            )
        while self.queue:
            assert self.patient or self.open or self.queue[0].patience is None, (
                "waited for a stream that is still held: it would wait until the hold loses its patience"
            )
            self._next(wait=True)
        self.host = max(self.host, self.clock)
        self.raise_what_stays()

    def launch(self, name: str, seconds: float, work: Step = lambda: None) -> None:
        """A kernel of a scripted length."""
        self.journal.append(name)

        def step() -> None:
            if name in self.faulty:
                self.stays = CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")
            work()

        self.enqueue(step, seconds)

    def start(self, text: str, name: str, grid: Any, block: Any, values: Sequence[bytes]) -> None:
        """A kernel of a file, on this stream."""
        self.started.append((name, tuple(grid), tuple(block)))
        self.launch(name, self.cost(name), lambda: run_kernel(text, name, grid, block, values))

    def by_library(self, step: Step, stream: int | None) -> None:
        """A library's work, which must be on this stream."""
        assert stream == STREAM, f"on the stream {stream}, not on that of the device"
        self.launch("library", self.cost("library"), step)

    def RawModule(self, **how: Any) -> Module:
        return Module(self, **how)

    def RawKernel(self, source: str, name: str) -> Any:
        """The holding kernel, and the one that reads the caches empty; there is no other."""

        def hold(grid: Any, block: Any, arguments: Any) -> None:
            gate, patience = arguments
            assert (type(gate), type(patience)) == (np.uint64, np.int64)
            assert (grid, block, int(gate)) == ((1,), (1,), self.gate.ptr)
            self.journal.append(name)
            self.enqueue(lambda: None, 0.0, int(patience) / CLOCK)

        def sweep(grid: Any, block: Any, arguments: Any) -> None:
            trash, count, never = arguments
            assert (type(trash), type(count), type(never)) == (np.uint64, np.int64, np.uint64)
            self.reach(int(trash), 16 * int(count) + 4)
            assert int(never) == int(trash) + 16 * int(count)
            self.launch(f"{name} {16 * count}", self.cost(name))

        return {"hold": hold, "sweep": sweep}[name]

    def empty(self, shape: Any, kind: Any = float) -> DeviceArray:
        assert self.stream.captured is None, "memory taken while a graph is captured, which would go on using it"
        nbytes = int(np.prod(shape)) * np.dtype(kind).itemsize
        if nbytes > self.free:
            raise MemoryError(f"Out of memory allocating {nbytes:,} bytes (allocated so far: 0 bytes).")
        block = launcher.Block(-(-nbytes // PAGE) * PAGE, PAGE)
        self.blocks.append((weakref.ref(block.map), block.address, nbytes))
        return DeviceArray(self, block.inside.view(np.uint8)[:nbytes].view(kind).reshape(shape))

    def reach(self, start: int, nbytes: int) -> None:
        """Refuse what is not wholly in memory that was given out here and is in use."""
        self.blocks = [x for x in self.blocks if x[0]() is not None]
        within = any(first <= start and start + nbytes <= first + size for _, first, size in self.blocks)
        assert within, f"{nbytes} bytes at {start:#x} are not in the device's memory"

    def ndarray(self, shape: Any, kind: Any, memory: Memory, strides: Any) -> DeviceArray:
        return DeviceArray(self, np.ndarray(shape, kind, memory.base, memory.offset, strides))

    def asnumpy(self, array: DeviceArray) -> np.ndarray:
        self.run()
        if not array.host.flags.c_contiguous:  # it is copied together first, in a stream that CuPy enters
            self.stream.left()
        return np.array(array.host)

    def get_default_memory_pool(self) -> Any:
        """It keeps nothing."""
        return SimpleNamespace(free_bytes=lambda: 0, used_bytes=lambda: sum(nbytes for _, _, nbytes in self.blocks))

    def copyto(self, target: DeviceArray, source: DeviceArray) -> None:
        self.launch("copyto", self.cost("copyto"), lambda: np.copyto(target.host, source.host))

    def matmul(self, a: DeviceArray, b: DeviceArray, out: DeviceArray) -> None:
        assert a.dtype == b.dtype == out.dtype and out.dtype.kind == "f", "CuPy casts, or has no such product"
        assert self.stream.captured is None, "it allocates"

        def step() -> None:
            out.host[...] = a.host.astype("f8") @ b.host.astype("f8")

        self.launch("matmul", self.cost("matmul"), step)

    def _elapsed(self, a: Event, b: Event) -> float:
        assert a.timing and b.timing, "an event that was made without a time"
        return (b.at - a.at) * 1e3

    def _host_alloc(self, nbytes: int, flag: int) -> int:
        block = np.zeros(nbytes, np.uint8)
        self.host_blocks[int(block.ctypes.data)] = block
        return int(block.ctypes.data)

    def _host_register(self, place: int, nbytes: int, flag: int) -> None:
        self.host_blocks[place] = np.empty(nbytes, np.bool_)

    def _locked(self, start: int, nbytes: int) -> bool:
        """Whether it is wholly in page-locked memory of the host."""
        return any(first <= start and start + nbytes <= first + x.nbytes for first, x in self.host_blocks.items())

    def _memcpy(self, target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        """From or to memory of the host that is not page-locked it waits for its stream."""
        assert stream == STREAM and kind in (1, 2, 3)
        of_host = {1: (source,), 2: (target,), 3: ()}[kind]
        for place in {target, source} - set(of_host):
            self.reach(place, nbytes)

        def step() -> None:
            ctypes.memmove(target, source, nbytes)

        self.launch("memcpy", self.cost("memcpy"), step)
        if not all(self._locked(place, nbytes) for place in of_host):
            self.run()
