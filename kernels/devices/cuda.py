"""An NVIDIA GPU through CuPy: memory, one stream, events, and a kernel that holds the stream.

The order of a visit is nvbench's: flush, hold the stream, mark, enqueue, mark, release, wait; so that no
gap between two launches falls between the marks. Never run on a GPU yet; its order of steps is tested
against a runtime that is not there (tests/simulated).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import nvcc
from kernels.devices.base import ALIGNMENT, Elapsed, Limits
from kernels.devices.cpu import NORMALS
from kernels.dtypes import BYTES, STORED, decode, drawn, encode, stored_as
from kernels.errors import BuildError, LaunchError, Unavailable, UsageError, said
from kernels.libs import cublas, cuda, nvml, torch_cuda

if TYPE_CHECKING:
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

missing = cuda.missing


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
    """`cp` is CuPy, or what a test puts in its place. Its stream is the current one of this thread."""

    kind = "cuda"
    native = False

    def __init__(self, index: int, cp: Any) -> None:
        self.name, self.cp = f"cuda:{index}", cp
        cp.cuda.Device(index).use()
        self._facts = cp.cuda.runtime.getDeviceProperties(index)
        self.arch = f"sm_{self._facts['major']}{self._facts['minor']}"
        self.processors: int = self._facts["multiProcessorCount"]
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.stream.use()
        self._open = cp.cuda.alloc_pinned_memory(4)
        self._gate = self._flag()
        self._hold: Any = None
        self._trash: Any = None
        self._modules: dict[Path, Any] = {}
        self._blas: cublas.Handle | None = None
        self._gpu = _gpu(cp, index)

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

    def function(self, source: Path, name: str, arch: str = "") -> Callable[..., object]:
        """A kernel of a CUDA file, called as f(grid, block, arguments, shared_mem=bytes) on this stream.
        nvcc compiles the file where there is one, else NVRTC; for `arch` where one is given, as sm_90a, nvcc
        alone: CuPy asks NVRTC for the device's own. Raises BuildError, Unavailable."""
        if source not in self._modules:
            if arch or nvcc.missing() is None:
                module = self.cp.RawModule(path=str(nvcc.cubin(source, arch or self.arch)))
            else:
                module = self.cp.RawModule(code=source.read_text("utf-8"))
            self._modules[source] = module
        try:
            found: Callable[..., object] = self._modules[source].get_function(name)
        except Exception as error:  # NVRTC compiles here, and CuPy's own exceptions have no common base
            raise BuildError(f"{source.name}: {said(error)}") from None
        return found

    def blas(self) -> cublas.Handle:
        """cuBLAS on this stream, opened once, with a workspace of its own. Raises Unavailable."""
        if self._blas is None:
            self._space = self.allocate(cublas.WORKSPACE)
            self._blas = cublas.open_handle(self.stream.ptr, int(self._space.data.ptr))
        return self._blas

    def allocate(self, nbytes: int) -> Any:
        try:
            block = self.cp.empty(nbytes + ALIGNMENT, self.cp.uint8)
        except self.cp.cuda.memory.OutOfMemoryError as error:
            raise LaunchError(f"out of device memory: {str(error).partition('(')[0].strip()}") from None
        start = -int(block.data.ptr) % ALIGNMENT
        return block[start : start + nbytes]

    def scatter(self, block: Any, seed: int, dtype: str = "fp32", data: str = "normal") -> None:
        elements = block[: block.size // BYTES[dtype] * BYTES[dtype]].view(STORED[dtype])
        some = self.cp.asarray(drawn(seed, min(NORMALS, elements.size), dtype, data))
        for start in range(0, elements.size, NORMALS):
            part = elements[start : start + NORMALS]
            part[...] = some[: part.size]

    def view(self, block: Any, offset: int, operand: Operand) -> Any:
        return self.cp.ndarray(operand.shape, STORED[operand.dtype], block.data + offset, operand.strides)

    def put(self, view: Any, array: Array) -> None:
        view[...] = self.cp.asarray(encode(array, stored_as(view.dtype)))
        self.sync()  # the host array may go away

    def get(self, view: Any) -> Array:
        self.sync()
        return decode(self.cp.asnumpy(view))

    def sync(self) -> None:
        self.stream.synchronize()

    def mark(self) -> Any:
        event = self.cp.cuda.Event()
        event.record(self.stream)
        return event

    def between(self, start: Any, end: Any) -> Elapsed:
        seconds = float(self.cp.cuda.get_elapsed_time(start, end)) * 1e-3
        return Elapsed(seconds, math.nan, bool(self._gpu and self._gpu.throttled()))

    def flush(self) -> None:
        """Write twice the second-level cache."""
        nbytes = 2 * self._facts["l2CacheSize"]
        if self._trash is None:
            self._trash = self.cp.empty(nbytes, self.cp.uint8)
        self._trash.data.memset_async(0, nbytes, self.stream)

    def hold(self) -> None:
        if self._hold is None:
            self._hold = self.cp.RawKernel(HOLD, "hold")
        self._gate[0] = 0
        self._hold((1,), (1,), (self._gate_address(), self.cp.int64(PATIENCE)))

    def _gate_address(self) -> Any:
        return self.cp.uint64(self._open.ptr)  # pinned memory has one address on both sides

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
        try:
            for _ in range(count):
                launch.call()
        finally:  # a stream that is left capturing would serve nobody again
            graph = self.stream.end_capture()
        graph.upload(self.stream)
        run: Callable[[], object] = lambda: graph.launch(self.stream)  # noqa: E731
        return run

    def names(self, call: Callable[[], object]) -> tuple[str, ...]:
        """The kernels that one call runs, in order, as PyTorch's profiler (Kineto over CUPTI) sees them; none
        where that is not here. What is traced is not to be timed."""
        if torch_cuda.missing():
            return ()
        torch = torch_cuda.load(self)
        activity, kind = torch.profiler.ProfilerActivity.CUDA, torch.autograd.DeviceType.CUDA
        with torch.profiler.profile(activities=[activity]) as traced:
            call()
            self.sync()
        return tuple(str(event.name) for event in traced.events() if event.device_type == kind)

    def profiler(self, word: str) -> None:
        """Tell a profiler that listens to "enable" or "disable"."""
        runtime = self.cp.cuda.runtime
        (runtime.profilerStart if word == "enable" else runtime.profilerStop)()

    def state(self) -> dict[str, float]:
        return self._gpu.state() if self._gpu else {}

    def describe(self) -> dict[str, Any]:
        facts, runtime = self._facts, self.cp.cuda.runtime
        name = facts["name"]
        return {
            "model": name.decode() if isinstance(name, bytes) else name,
            "vendor": "NVIDIA",
            "isa": [self.arch],
            "multiprocessors": self.processors,
            "caches": list(self.limits().caches),
            "driver": runtime.driverGetVersion(),
            "runtime": runtime.runtimeGetVersion(),
            "card": self._gpu.facts() if self._gpu else {},
        }

    def limits(self) -> Limits:
        free, _ = self.cp.cuda.runtime.memGetInfo()
        return Limits(free, self.processors, (self._facts["l2CacheSize"],))


def _gpu(cp: Any, index: int) -> nvml.Gpu | None:
    """The card's own clocks and complaints; without its library they stay unknown."""
    if nvml.missing():
        return None
    try:
        return nvml.open_gpu(cp.cuda.runtime.deviceGetPCIBusId(index))
    except Unavailable:
        return None
