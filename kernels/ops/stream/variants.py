"""Streams by our kernels in C and CUDA; copies also by libraries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kernels import build, grid, openmp, team
from kernels.launch import Bind, Launch, held
from kernels.lazy import np
from kernels.libs import torch as torch_library
from kernels.libs import torch_cuda
from kernels.libs.cuda import CUDA_RUNTIME, CUDA_SUITE, CUPY
from kernels.libs.torch import TORCH
from kernels.libs.torch_cuda import TORCH_CUDA
from kernels.native import launch, structure
from kernels.nvcc import Argument as Passed
from kernels.nvcc import Geometry, over
from kernels.ops.stream.problem import Stream
from kernels.problem import Array
from kernels.provider import LIBC, NUMPY, SUITE
from kernels.setting import Setting
from kernels.variant import CEILING, DEFAULT, Variant, row

SOURCE, CUDA_SOURCE = Path(__file__).with_name("stream.c"), Path(__file__).with_name("stream.cu")
KERNELS = ("stream_read", "stream_copy", "stream_triad")  # of stream.cu
THREADS = 256
RESIDENT = 8  # blocks of 256 that a multiprocessor of sm_80, sm_90 or sm_100 holds: 2048 threads
Argument = structure("pointer: a b y", "int64: count")  # Arguments of stream.c: its arrays and their length


PASS = 1 << 20  # least bytes that a launch reads (a small array many times), so that the final sum takes 1 %
SLICE, LAUNCH = 256 << 10, 16 << 20  # with several threads, least bytes that a thread reads at a time and per launch
LINE = 16  # floats of a cache line, which threads do not share
APART = 16  # numbers of float64 from one thread's sum to the next, in stream.c
Read = structure("pointer: a y", "int64: count again")  # Arguments of stream_read
# Arguments of stream_read_part
Shared = team.planned(structure("pointer: a y sums", "int64: count length again"))


def _read_by_several(problem: Stream, threads: int, flags: tuple[str, ...]) -> Bind:
    """Bind reads by several threads, each of its share, repeated in a launch. Raises Unavailable.

    One read of a small array is shorter than the threads' start; other threads take slices from a late thread.
    """
    share = -(-problem.count // threads)
    slices = max(1, 4 * share // SLICE)
    length = -(-share // slices)
    again = max(1, PASS // (4 * length)) if slices == 1 else 1
    passes = max(1, -(-LAUNCH // (4 * share * again)))
    names = ("stream_read_part", "stream_read_done")
    part, done = (build.address(SOURCE, name, flags) for name in names)
    members = team.gather(threads)

    def bind(buffers: Sequence[Array]) -> Launch:
        sums = np.zeros(APART * threads)
        plan = Shared(part, done, threads, slices, passes, None, None, sums.ctypes.data, problem.count, length, again)
        return team.shared(members, plan, ("a", "y"), buffers, passes * again, (sums,))

    return bind


def _read(problem: Stream, flags: tuple[str, ...]) -> Bind:
    function, again = build.address(SOURCE, "stream_read", flags), max(1, PASS // problem.size)

    def bind(buffers: Sequence[Array]) -> Launch:
        return launch(function, Read(count=problem.count, again=again), ("a", "y"), buffers, uses=again)

    return bind


def prepare(problem: Stream, device: object, setting: Setting) -> Bind:
    flags = openmp.flags(setting)
    kernel = openmp.compiled(SOURCE, flags, setting)
    traffic = _traffic(problem, setting, flags)

    def bind(buffers: Sequence[Array]) -> Launch:
        return replace(traffic(buffers), kernel=kernel)

    return bind


def _traffic(problem: Stream, setting: Setting, flags: tuple[str, ...]) -> Bind:
    if problem.kind == "read":
        several = setting.threads > 1
        return _read_by_several(problem, setting.threads, flags) if several else _read(problem, flags)
    function = build.address(SOURCE, f"stream_{problem.kind}", flags)
    names = [operand.name for operand in problem.operands()]
    axis = openmp.Axis("count", problem.count, dict.fromkeys("aby", 4), LINE)
    return lambda buffers: openmp.launched(function, Argument(count=problem.count), names, buffers, setting, axis)


def copies(problem: Stream) -> str | None:
    """Return why a variant that only copies cannot run `problem`, or None."""
    return None if problem.kind == "copy" else "it only copies: --kind copy"


def numpy_copyto(problem: Stream, device: object, setting: object) -> Bind:
    return lambda buffers: Launch(partial(np.copyto, buffers[1], buffers[0]))


def libc_memcpy(problem: Stream, device: object, setting: object) -> Bind:
    function = build.address(SOURCE.with_name("memcpy.c"), "stream_memcpy")
    return lambda buffers: launch(function, Argument(count=problem.count), "ay", buffers)


def torch_cpu_copy(problem: Stream, device: object, setting: Any) -> Bind:
    torch = torch_library.on_threads(setting.threads)

    def bind(buffers: Sequence[Array]) -> Launch:
        source, target = (torch_library.tensor(torch, buffer) for buffer in buffers)
        return Launch(partial(target.copy_, source))

    return bind


def launches(problem: Stream, kernel: str, processors: int) -> tuple[Geometry, ...]:
    """Return a launch of the resident blocks, and, for a read, a launch that adds up their sums."""
    blocks = max(1, min(-(-problem.count // (4 * THREADS)), RESIDENT * processors))
    if problem.kind != "read":
        return (over(kernel, blocks, THREADS, [x.name for x in problem.operands()], problem.count),)
    sums: Passed = ("workspace", 4 * blocks)
    return (
        over(kernel, blocks, THREADS, "a", sums, problem.count),
        over(kernel, 1, THREADS, (), sums, ("operand", "y"), blocks),
    )


def memcpy(problem: Stream, device: Any, setting: object) -> Bind:
    """Prepare cudaMemcpyAsync from device to device."""
    runtime, stream = device.cp.cuda.runtime, device.stream.ptr

    def bind(buffers: Sequence[Any]) -> Launch:
        source, target = (int(buffer.data.ptr) for buffer in buffers)
        kind = runtime.memcpyDeviceToDevice
        call = partial(runtime.memcpyAsync, target, source, 4 * problem.count, kind, stream)
        return held(call, buffers, capturable=True, kernels=1)

    return bind


def cupy_copyto(problem: Stream, device: Any, setting: object) -> Bind:
    return lambda buffers: Launch(partial(device.cp.copyto, buffers[1], buffers[0]), kernels=1)


def torch_copy(problem: Stream, device: Any, setting: object) -> Bind:
    torch = torch_cuda.load(device)

    def bind(buffers: Sequence[Any]) -> Launch:
        source, target = (torch_cuda.tensor(torch, buffer) for buffer in buffers)
        return held(partial(target.copy_, source), buffers, kernels=1)

    return bind


VARIANTS: tuple[Variant[Stream], ...] = (
    row(SUITE, "c", prepare, roles=(DEFAULT, CEILING)),
    row(NUMPY, "numpy", numpy_copyto, accepts=copies),
    row(LIBC, "memcpy", libc_memcpy, accepts=copies, roles=()),
    row(TORCH, "torch", torch_cpu_copy, accepts=copies, roles=()),
    row(
        CUDA_SUITE,
        "cuda",
        grid.prepared(
            CUDA_SOURCE, lambda problem, device: launches(problem, f"stream_{problem.kind}", device.processors)
        ),
        roles=(DEFAULT, CEILING),
    ),
    row(CUDA_RUNTIME, "memcpy-cuda", memcpy, accepts=copies),
    row(CUPY, "cupy", cupy_copyto, accepts=copies),
    row(TORCH_CUDA, "torch-cuda", torch_copy, accepts=copies),
)
