"""libcuda and PyCUDA as far as they load a cubin and launch its kernels: on the CPU, in the fake CuPy's order."""

from __future__ import annotations

import ctypes
import re
import struct
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.simulated import launcher
from tests.simulated.fake_cupy import FakeCupy
from tests.simulated.fake_cupy_objects import STREAM, Step, run_kernel

INVALID, NOT_FOUND = 400, 500  # CUresult
POINTER, UNSIGNED = ctypes.c_void_p, ctypes.c_uint
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, *[UNSIGNED] * 7, POINTER, POINTER, POINTER)


def parameters(text: str, name: str) -> int:
    """How many a kernel has."""
    found = re.search(rf"\b{name}\(([^)]*)\)", text)
    assert found is not None
    return found[1].count(",") + 1


class FakeDriver:
    """libcuda. Its launch has an address, for callers in C; what is wrong with one is its status."""

    def __init__(self, fake: FakeCupy) -> None:
        self.fake = fake
        self.things: dict[int, Any] = {}
        self.cuLaunchKernel = LAUNCH(self._launch)

    def _made(self, place: Any, thing: Any) -> int:
        place._obj.value = 0x1000 + 16 * len(self.things)
        self.things[place._obj.value] = thing
        return 0

    def cuModuleLoad(self, module: Any, path: bytes) -> int:
        return self._made(module, Path(path.decode()).read_text("utf-8"))

    def cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        text = self.things[module.value]
        if name.decode() not in launcher.names(text):
            return NOT_FOUND
        return self._made(function, (text, name.decode()))

    def _launch(self, function: int, *words: Any) -> int:
        """The parameters are read now: they may go away."""
        *sizes, shared, stream, places, extra = words
        if function not in self.things or stream != STREAM or shared or extra or min(sizes) < 1:
            return INVALID
        text, name = self.things[function]
        count = parameters(text, name)
        values = [ctypes.string_at(x, 8) for x in (ctypes.c_size_t * count).from_address(places)]
        self.fake.start(text, name, sizes[:3], sizes[3:], values)
        return 0


class FakePycuda:
    """`pycuda.driver`, and libcuda's events. Its stream knows nothing of the caller's but what events say."""

    class Error(Exception):
        pass

    def __init__(self, fake: FakeCupy) -> None:
        self.fake, self.events = fake, 0
        self.side: list[Step] = []  # launched there, and not yet waited for by anybody
        self.tied = False  # whether what is launched there comes after what the caller had enqueued
        self.carried: dict[int, tuple[int, list[Step]]] = {}  # an event's stream, and the work that it ends

    def pagelocked_empty(self, shape: int, dtype: str) -> np.ndarray:
        """Page-locked as long as it lives."""
        block = np.zeros(shape, dtype)
        place = int(block.ctypes.data)
        self.fake.host_blocks[place] = np.empty(block.nbytes, np.bool_)
        weakref.finalize(block, self.fake.host_blocks.pop, place)
        return block

    def Stream(self, flags: int) -> Any:
        assert flags == 1  # of no implicit order with the default stream
        return SimpleNamespace(handle=STREAM + 1)

    def module_from_file(self, path: str) -> Any:
        text = Path(path).read_text("utf-8")
        return SimpleNamespace(get_function=lambda name: Prepared(self, text, name))

    def cuEventCreate(self, event: Any, flags: Any) -> int:
        self.events += 1
        event._obj.value = self.events
        return 0

    def cuEventRecord(self, event: Any, stream: Any) -> int:
        work = []
        if stream.value != STREAM:
            work, self.side = self.side, []
        self.carried[event.value] = (stream.value, work)
        return 0

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: Any) -> int:
        first, work = self.carried[event.value]
        if (stream.value, first) == (STREAM + 1, STREAM):
            self.tied = True
        if (stream.value, first) == (STREAM, STREAM + 1):
            for step in work:
                self.fake.enqueue(step)
            self.tied = False
        return 0


class Prepared:
    """A kernel of PyCUDA."""

    def __init__(self, on: FakePycuda, text: str, name: str) -> None:
        if name not in launcher.names(text):
            raise on.Error(f"cuModuleGetFunction failed: {name} not found")
        self.on, self.text, self.name = on, text, name
        self.letters: Sequence[str] = ()

    def prepare(self, letters: Sequence[str]) -> None:
        assert len(letters) == parameters(self.text, self.name)
        self.letters = letters

    def prepared_async_call(self, grid: Any, block: Any, stream: Any, *values: Any, shared_size: int = 0) -> None:
        assert stream.handle == STREAM + 1 and shared_size == 0
        if not self.on.tied:
            raise self.on.Error("launched before what the caller's stream still has to do")
        packed = [struct.pack(letter, x) for letter, x in zip(self.letters, values, strict=True)]
        self.on.fake.journal.append(self.name)
        self.on.fake.started.append((self.name, tuple(grid), tuple(block)))
        self.on.side.append(self._step(grid, block, packed))

    def _step(self, grid: Any, block: Any, values: Sequence[bytes]) -> Callable[[], None]:
        def step() -> None:
            self.on.fake.clock += self.on.fake.cost(self.name)
            run_kernel(self.text, self.name, grid, block, values)

        return step
