"""CuPy's part that the cuda device uses, on host memory, with a clock that launches move and a journal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np


class Memory:
    """A pointer into host memory; what CuPy calls a MemoryPointer."""

    def __init__(self, fake: FakeCupy, base: np.ndarray, offset: int = 0) -> None:
        self.fake, self.base, self.offset = fake, base, offset
        self.ptr = base.ctypes.data + offset

    def __add__(self, offset: int) -> Memory:
        return Memory(self.fake, self.base, self.offset + offset)

    def memset_async(self, value: int, nbytes: int, stream: object) -> None:
        self.fake.journal.append(f"memset {nbytes}")
        self.base[self.offset : self.offset + nbytes] = value


class Array(np.ndarray):
    """A host array that says where it lies."""

    fake: FakeCupy

    @property
    def data(self) -> Any:  # type: ignore[override]
        base: Any = self
        while isinstance(base.base, np.ndarray):
            base = base.base
        raw = np.asarray(base).view(np.uint8).reshape(-1)
        return Memory(self.fake, raw, self.ctypes.data - raw.ctypes.data)


class Event:
    def __init__(self, fake: FakeCupy) -> None:
        self.fake, self.at = fake, 0.0

    def record(self, stream: object) -> None:
        self.fake.journal.append("mark")
        self.fake.enqueue(self._stamp)

    def _stamp(self) -> None:
        self.at = self.fake.clock


class Graph:
    def __init__(self, fake: FakeCupy, work: list[Any]) -> None:
        self.fake, self.work = fake, work

    def upload(self, stream: object) -> None:
        self.fake.journal.append("upload")

    def launch(self, stream: object) -> None:
        self.fake.journal.append(f"graph of {len(self.work)}")
        for step in self.work:
            self.fake.enqueue(step)


class Stream:
    """Work waits while the gate is shut, as it does behind the holding kernel."""

    def __init__(self, fake: FakeCupy) -> None:
        self.fake, self.ptr = fake, 7
        self.captured: list[Any] | None = None

    def synchronize(self) -> None:
        self.fake.journal.append("sync")
        self.fake.run()

    def begin_capture(self) -> None:
        self.captured = []

    def end_capture(self) -> Graph:
        work, self.captured = self.captured or [], None
        return Graph(self.fake, work)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class FakeCupy:
    """Stands where the module `cupy` would."""

    uint8, float32, int64, uint64 = np.uint8, np.float32, np.int64, np.uint64

    def __init__(self, free: int = 1 << 30) -> None:
        self.journal: list[str] = []
        self.clock, self.queue, self.free = 0.0, [], free
        self.stream = Stream(self)
        facts = {
            "name": b"Fake GPU", "major": 9, "minor": 0, "multiProcessorCount": 4, "l2CacheSize": 1 << 20,
        }  # fmt: skip
        self.cuda = SimpleNamespace(
            Device=lambda index: SimpleNamespace(use=lambda: self.journal.append(f"use {index}")),
            Stream=lambda non_blocking: self.stream,
            Event=lambda: Event(self),
            get_elapsed_time=lambda a, b: (b.at - a.at) * 1e3,
            alloc_pinned_memory=self._pinned,
            memory=SimpleNamespace(OutOfMemoryError=MemoryError),
            runtime=SimpleNamespace(
                getDeviceProperties=lambda index: facts,
                deviceSynchronize=lambda: None,
                memGetInfo=lambda: (self.free, 2 * self.free),
                driverGetVersion=lambda: 13000,
                runtimeGetVersion=lambda: 13000,
            ),
        )

    def _pinned(self, nbytes: int) -> Any:
        self.gate = np.ones(nbytes, np.uint8).view(PinnedWord)
        self.gate.ptr = self.gate.ctypes.data
        return self.gate

    @property
    def open(self) -> bool:
        return bool(np.frombuffer(self.gate, np.int32, 1)[0])

    def enqueue(self, step: Any) -> None:
        """To the stream: done at once where nothing holds it."""
        if self.stream.captured is not None:
            self.stream.captured.append(step)
            return
        self.queue.append(step)

    def run(self) -> None:
        """What the device does until it is waited for."""
        assert self.open, "waited for a stream that is still held: nothing would ever open it"
        for step in self.queue:
            step()
        self.queue = []

    def launch(self, name: str, seconds: float, work: Any = lambda: None) -> None:
        """A kernel of a scripted length."""
        self.journal.append(name)

        def step() -> None:
            self.clock += seconds
            work()

        self.enqueue(step)

    def RawKernel(self, source: str, name: str) -> Any:
        def start(grid: Any, block: Any, arguments: Any) -> None:
            self.journal.append(name)

        return start

    def empty(self, nbytes: int, kind: Any) -> Array:
        if nbytes > self.free:
            raise MemoryError(f"Out of memory allocating {nbytes:,} bytes (allocated so far: 0 bytes).")
        return self._own(np.zeros(nbytes, kind))

    def ndarray(self, shape: Any, kind: Any, memory: Memory, strides: Any) -> Array:
        return self._own(np.ndarray(shape, kind, memory.base, memory.offset, strides))

    def asarray(self, array: Any) -> Array:
        return self._own(np.array(array))

    @staticmethod
    def asnumpy(array: Any) -> np.ndarray:
        return np.array(array)

    def _own(self, array: np.ndarray) -> Array:
        found = array.view(Array)
        type(found).fake = self
        return found


class PinnedWord(np.ndarray):
    """Pinned memory: a buffer with an address of its own."""

    ptr: int = 0
