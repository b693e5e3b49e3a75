"""An NVIDIA GPU through CuPy: memory, one stream, events, and a kernel that holds the stream.

The order of a visit is nvbench's: flush, hold the stream, mark, enqueue, mark, release, wait; so that no
gap between two launches falls between the marks. Never run on a GPU yet; its order of steps is tested
against a runtime that is not there (tests/simulated).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernels.devices.base import ALIGNMENT, Elapsed, Limits
from kernels.devices.cpu import NORMALS
from kernels.errors import LaunchError, Unavailable, UsageError
from kernels.libs import cuda

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernels.problem import Array, Operand
    from kernels.variant import Launch, Variant

HOLD = r"""
extern "C" __global__ void hold(volatile const int *open, long long patience)
{
    long long start = clock64();
    while (!*open && clock64() - start < patience) { }
}
"""
PATIENCE = 4_000_000_000  # clocks: two seconds, after which a forgotten hold lets go


def open_device(index: str = "") -> Cuda:
    """Raises Unavailable with what is missing, UsageError for an index that is none."""
    if not (index or "0").isdigit():
        raise UsageError(f"--device cuda:{index}: give a number, as cuda:0")
    if reason := cuda.missing():
        raise Unavailable(reason)
    import cupy

    count = cupy.cuda.runtime.getDeviceCount()
    if int(index or 0) >= count:
        raise UsageError(f"--device cuda:{index}: there are {count}, from cuda:0 on")
    return Cuda(int(index or 0), cupy)


class Cuda:
    """`cp` is CuPy, or what a test puts in its place."""

    kind = "cuda"
    native = False

    def __init__(self, index: int, cp: Any) -> None:
        self.name, self._cp = f"cuda:{index}", cp
        cp.cuda.Device(index).use()
        self._facts = cp.cuda.runtime.getDeviceProperties(index)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self._open = cp.cuda.alloc_pinned_memory(4)
        self._gate = self._flag()
        self._hold: Any = None
        self._trash: Any = None

    def _flag(self) -> Array:
        """The pinned word that the holding kernel looks at."""
        import numpy as np

        word: Array = np.frombuffer(self._open, np.int32, 1)
        word[0] = 1
        return word

    def adopt(self, variant: Variant[Any]) -> Variant[Any]:
        if variant.device != self.kind:
            raise Unavailable(f"{variant.name} is a kernel for {variant.device}, not for {self.name}")
        return variant

    def allocate(self, nbytes: int) -> Any:
        try:
            block = self._cp.empty(nbytes + ALIGNMENT, self._cp.uint8)
        except self._cp.cuda.memory.OutOfMemoryError as error:
            raise LaunchError(f"out of device memory: {str(error).partition('(')[0].strip()}") from None
        start = -int(block.data.ptr) % ALIGNMENT
        return block[start : start + nbytes]

    def scatter(self, block: Any, seed: int) -> None:
        import numpy as np

        floats = block[: block.size // 4 * 4].view(self._cp.float32)
        drawn = np.random.default_rng(seed).standard_normal(min(NORMALS, floats.size), np.float32)
        some = self._cp.asarray(drawn)
        for start in range(0, floats.size, NORMALS):
            part = floats[start : start + NORMALS]
            part[...] = some[: part.size]

    def view(self, block: Any, offset: int, operand: Operand) -> Any:
        return self._cp.ndarray(operand.shape, self._cp.float32, block.data + offset, operand.strides)

    def put(self, view: Any, array: Array) -> None:
        view[...] = self._cp.asarray(array)
        self._cp.cuda.runtime.deviceSynchronize()  # CuPy copied on a stream of its own

    def get(self, view: Any) -> Array:
        self.sync()
        host: Array = self._cp.asnumpy(view)
        return host

    def sync(self) -> None:
        self.stream.synchronize()

    def mark(self) -> Any:
        event = self._cp.cuda.Event()
        event.record(self.stream)
        return event

    def between(self, start: Any, end: Any) -> Elapsed:
        return Elapsed(float(self._cp.cuda.get_elapsed_time(start, end)) * 1e-3, math.nan)

    def flush(self) -> None:
        """Write twice the second-level cache."""
        nbytes = 2 * self._facts["l2CacheSize"]
        if self._trash is None:
            self._trash = self._cp.empty(nbytes, self._cp.uint8)
        self._trash.data.memset_async(0, nbytes, self.stream)

    def hold(self) -> None:
        if self._hold is None:
            self._hold = self._cp.RawKernel(HOLD, "hold")
        self._gate[0] = 0
        with self.stream:
            self._hold((1,), (1,), (self._gate_address(), self._cp.int64(PATIENCE)))

    def _gate_address(self) -> Any:
        return self._cp.uint64(self._open.ptr)  # pinned memory has one address on both sides

    def release(self) -> None:
        self._gate[0] = 1

    def repeat(self, launch: Launch, count: int) -> Callable[[], object]:
        """A captured graph of `count` launches where they can be captured, else a loop in Python."""
        if not launch.capturable:

            def loop() -> None:
                for _ in range(count):
                    launch.call()

            return loop
        self.stream.begin_capture()
        for _ in range(count):
            launch.call()
        graph = self.stream.end_capture()
        graph.upload(self.stream)
        run: Callable[[], object] = lambda: graph.launch(self.stream)  # noqa: E731
        return run

    def describe(self) -> dict[str, Any]:
        facts, runtime = self._facts, self._cp.cuda.runtime
        name = facts["name"]
        return {
            "model": name.decode() if isinstance(name, bytes) else name,
            "vendor": "NVIDIA",
            "isa": [f"sm_{facts['major']}{facts['minor']}"],
            "multiprocessors": facts["multiProcessorCount"],
            "caches": list(self.limits().caches),
            "driver": runtime.driverGetVersion(),
            "runtime": runtime.runtimeGetVersion(),
        }

    def limits(self) -> Limits:
        free, _ = self._cp.cuda.runtime.memGetInfo()
        return Limits(free, self._facts["multiProcessorCount"], (self._facts["l2CacheSize"],))
