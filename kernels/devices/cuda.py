"""NVIDIA GPUs through CuPy: memory, one stream, events, and a kernel that holds the stream.

A sample has nvbench's order, by which no gap between two launches falls between the marks: flush, hold the stream,
mark, enqueue, mark, release, wait. A simulated runtime tests this order (tests/simulated)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import nvcc
from kernels.devices.base import Elapsed, Limits, V, written_for
from kernels.devices.cpu import NORMALS
from kernels.devices.kind import Kind
from kernels.dtypes import BYTES, STORED, decode, drawn, encode, stored_as
from kernels.errors import BuildError, LaunchError, Unavailable, UsageError, summary
from kernels.libs import cublas, cuda, cudnn, cudnn_frontend, cusparse, nvml, torch_cuda
from kernels.pace import Pace

if TYPE_CHECKING:
    from kernels.launch import Launch
    from kernels.problem import Array, Operand

HOLD = r"""
extern "C" __global__ void hold(volatile const int *open, long long patience)
{
    long long start = clock64();
    while (!*open && clock64() - start < patience) { }
}
"""
SWEEP = r"""
extern "C" __global__ void sweep(const float4 *trash, long long count, float *never)
{
    long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x, step = gridDim.x * (long long)blockDim.x;
    float sum = 0;
    for (long long i = first; i < count; i += step)
        sum += trash[i].x + trash[i].y + trash[i].z + trash[i].w;
    if (sum == 1.5f) *never = sum; /* it reads zeros: the loads cannot be dropped, and nothing is written */
}
"""
# Clocks after which a hold ends by itself: 0.25 s at 2 GHz, 1.5 s at the clock of an idle card. The host needs
# milliseconds to enqueue a sample behind a hold.
PATIENCE = 500_000_000
KIND = Kind(
    "cuda",
    "cuda:0",
    "cuda",
    clock="event",
    tick=0.5e-6,
    visit="held",
    queue=512,  # kernels: a stream takes about 1022 before it blocks its caller
    alignment=512,  # bytes, as of CuPy's and PyTorch's allocators; cudaMalloc aligns to 256
    refuses={
        "threads": "its kernels are launched from one thread",
        "cold": "its cache can only be emptied completely: --cold all",
        "isa": "it has only one instruction set",
        "heap": "it uses its own memory allocator",
        "preload": "its products do not use CPU libraries",
    },
    flushes=True,
    ceilings=("fma", "mma", "stream"),
    isas=lambda: ("cuda",),
    dtypes=("fp32", "tf32", "bf16", "fp16"),
    undivided=True,
    caches=(50 << 20,),  # an H100's second level
    first_answer=60.0,
    sticky=True,
    profiler="ncu",
)
LANES, CLOCK = 128, 1.2e9  # multiply-adds per multiprocessor and cycle (64 on sm_80), and a low clock: guesses
BYTES_PER_PROCESSOR = 15e9  # memory bytes/s per multiprocessor: 2 TB/s of an H100's 3.4, 1.6 TB/s for an A100
VISIT = 5e-3  # seconds of host time per sample: views, capture, waiting
EMPTY = 9  # pairs of events with nothing between them: their median is the overhead
SWEEPERS = 1024  # threads per block of the sweep, which has two blocks per multiprocessor

missing = cuda.missing


def kind(index: str = "") -> Kind:
    """Return the kind, the same for every index."""
    return KIND


def open_device(index: str = "") -> Cuda:
    """Open the GPU of this index. Raises Unavailable, and UsageError for an index without a GPU."""
    if not (index or "0").isdigit():
        raise UsageError(f"--device cuda:{index}: the index must be a number, e.g. cuda:0")
    if reason := cuda.missing():
        raise Unavailable(reason)
    import cupy

    count = cupy.cuda.runtime.getDeviceCount()
    if int(index or 0) >= count:
        raise UsageError(f"--device cuda:{index}: this machine has {count} CUDA device(s), numbered from 0")
    return Cuda(int(index or 0), cupy)


class Cuda:
    """A CUDA device, whose stream is this thread's current CuPy stream.

    `cp` is CuPy, or a test's stand-in."""

    kind = KIND

    def __init__(self, index: int, cp: Any) -> None:
        self.name, self.cp = f"cuda:{index}", cp
        cp.cuda.Device(index).use()
        self._facts = cp.cuda.runtime.getDeviceProperties(index)
        self.arch = f"sm_{self._facts['major']}{self._facts['minor']}"
        self.processors: int = self._facts["multiProcessorCount"]
        self.stream = cp.cuda.Stream(non_blocking=True)
        # Entered and never left. After use() alone, the stream is current only until CuPy enters and leaves a stream,
        # as it does for an array that is not contiguous, and then works on the null stream, unordered with ours.
        self.stream.__enter__()
        self._open = cp.cuda.alloc_pinned_memory(4)
        self._gate = self._flag()
        self._hold: Any = None
        self._sweep: Any = None
        self._trash: Any = None
        self._modules: dict[Path, Any] = {}
        self._blas: cublas.Handle | None = None
        self._dnn: cudnn.Cudnn | None = None
        self._graphs: cudnn_frontend.Frontend | None = None
        self._sparse: cusparse.Handle | None = None
        self._link: float | None = None
        self._gpu = _gpu(cp, index)

    def _flag(self) -> Array:
        """Return the pinned word that the holding kernel polls, set to 1, which releases it."""
        import numpy as np

        word: Array = np.frombuffer(self._open, np.int32, 1)
        word[0] = 1
        return word

    def adopt(self, variant: V) -> V:
        return written_for(variant, self.kind, self.name)

    def function(self, source: Path, name: str, arch: str = "") -> Callable[..., object]:
        """Return a kernel of a CUDA file, called as f(grid, block, arguments, shared_mem=bytes).

        The compiler is nvcc if installed, else NVRTC. A given `arch`, such as sm_90a, needs nvcc, because CuPy's NVRTC
        compiles for the device's architecture alone. Raises BuildError, Unavailable."""
        if source not in self._modules:
            if arch or nvcc.missing() is None:
                module = self.cp.RawModule(path=str(nvcc.cubin(source, arch or self.arch)))
            else:
                module = self.cp.RawModule(code=source.read_text("utf-8"))
            self._modules[source] = module
        try:
            kernel: Callable[..., object] = self._modules[source].get_function(name)
        except Exception as error:  # NVRTC compiles here, and CuPy's own exceptions have no common base
            raise BuildError(f"{source.name}: {summary(error)}") from None
        return kernel

    def blas(self) -> cublas.Handle:
        """Return the cached cuBLAS handle on this stream, with a private workspace. Raises Unavailable."""
        if self._blas is None:
            self._space = self.allocate(cublas.WORKSPACE)
            self._blas = cublas.open_handle(self.stream.ptr, int(self._space.data.ptr))
        return self._blas

    def dnn(self) -> cudnn.Cudnn:
        """Return the cached cuDNN handle on this stream. Raises Unavailable."""
        if self._dnn is None:
            self._dnn = cudnn.open_handle(stream=self.stream.ptr)
        return self._dnn

    def graphs(self) -> cudnn_frontend.Frontend:
        """Return the cached handle of cuDNN's frontend on this stream. Raises Unavailable."""
        if self._graphs is None:
            self._graphs = cudnn_frontend.open_handle(self.stream.ptr)
        return self._graphs

    def sparse(self) -> cusparse.Handle:
        """Return the cached cuSPARSE handle on this stream. Raises Unavailable."""
        if self._sparse is None:
            self._sparse = cusparse.open_handle(self.stream.ptr)
        return self._sparse

    def allocate(self, nbytes: int) -> Any:
        try:
            block = self.cp.empty(nbytes + KIND.alignment, self.cp.uint8)
        except self.cp.cuda.memory.OutOfMemoryError as error:
            raise LaunchError(f"out of device memory: {str(error).partition('(')[0].strip()}") from None
        start = -int(block.data.ptr) % KIND.alignment
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

    def passed(self, mark: Any) -> bool:
        return bool(mark.done)

    def between(self, start: Any, end: Any) -> Elapsed:
        return Elapsed(float(self.cp.cuda.get_elapsed_time(start, end)) * 1e-3, math.nan)

    def overhead(self) -> float:
        """Return the median seconds between two adjacent events, over EMPTY held pairs."""
        seconds = []
        for _ in range(EMPTY):
            self.hold()
            start, end = self.mark(), self.mark()
            self.release()
            self.sync()
            seconds.append(self.between(start, end).wall)
        return sorted(seconds)[EMPTY // 2]

    def flush(self) -> None:
        """Read twice the L2 cache's size: lines, if written, would be written back in the next timing."""
        nbytes = 2 * self._facts["l2CacheSize"]
        if self._trash is None:
            self._trash = self.cp.empty(nbytes + 16, self.cp.uint8)
            self._trash.data.memset_async(0, nbytes + 16, self.stream)
            self._sweep = self.cp.RawKernel(SWEEP, "sweep")
        place = self.cp.uint64(self._trash.data.ptr)
        arguments = (place, self.cp.int64(nbytes // 16), self.cp.uint64(place + self.cp.uint64(nbytes)))
        self._sweep((2 * self.processors,), (SWEEPERS,), arguments)

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
        """Return a captured graph of `count` launches if they can be captured, else a loop in Python.

        A single launch is not captured, because a graph takes 3 to 6 us to start."""
        if launch.capturable and count > 1:
            return self.captured(launch, count)

        def loop() -> None:
            for _ in range(count):
                launch.call()

        return loop

    def captured(self, launch: Launch, count: int) -> Callable[[], object]:
        """Return a function that replays a captured graph of `count` launches, which must be capturable."""
        self.stream.begin_capture()
        try:
            for _ in range(count):
                launch.call()
        except BaseException:
            with suppress(Exception):  # the fault made the capture invalid, and is what is reported
                self.stream.end_capture()
            raise
        graph = self.stream.end_capture()
        graph.upload(self.stream)
        return lambda: graph.launch(self.stream)

    def names(self, calls: Sequence[Callable[[], object]]) -> list[tuple[str, ...]]:
        """Return the names of the kernels that each call runs, in order, by PyTorch's profiler (Kineto).

        Returns empty tuples without PyTorch. Afterwards CUPTI stays attached to this process, which must not time
        anything again."""
        if torch_cuda.missing():
            return [() for _ in calls]
        torch = torch_cuda.load(self)
        warnings.filterwarnings("ignore", "Profiler clears events")  # there is one cycle, whose events are read in it
        activity, kind = torch.profiler.ProfilerActivity.CUDA, torch.autograd.DeviceType.CUDA
        with torch.profiler.profile(activities=[activity]) as traced:
            for call in calls:
                self.hold()  # its kernel separates those of one call from the next
                self.release()
                call()
                self.sync()
        ran = [str(event.name) for event in traced.events() if event.device_type == kind]
        return split_at("hold", ran)[-len(calls) :] if calls else []

    def profiler(self, word: str) -> None:
        """Start the capture range of an attached profiler by "enable", or stop it by any other word."""
        runtime = self.cp.cuda.runtime
        (runtime.profilerStart if word == "enable" else runtime.profilerStop)()

    def pace(self) -> Pace:
        return self._gpu.pace() if self._gpu else Pace()

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
        if self._link is None:  # queried once, because NVML may take milliseconds
            self._link = self._gpu.link() if self._gpu else 0.0
        return Limits(
            free + self.cp.get_default_memory_pool().free_bytes(),  # memory that CuPy's pool keeps
            self.processors,
            (self._facts["l2CacheSize"],),
            2 * LANES * CLOCK * self.processors,
            BYTES_PER_PROCESSOR * self.processors,
            VISIT,
            ("wgmma",) if self.arch == "sm_90" else (),
            self._link,
        )


def split_at(word: str, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return, for each `word` in `names`, the names that follow it up to the next `word`."""
    parts: list[list[str]] = []
    for name in names:
        if name == word:
            parts.append([])
        elif parts:
            parts[-1].append(name)
    return [tuple(part) for part in parts]


def _gpu(cp: Any, index: int) -> nvml.Gpu | None:
    """Return NVML's handle of the card, or None if NVML is missing or does not list the card."""
    if nvml.missing():
        return None
    try:
        return nvml.open_gpu(cp.cuda.runtime.deviceGetPCIBusId(index))
    except Unavailable:
        return None
