"""One kernel of each kind in C and in CUDA; copies by libraries."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build, grid, own, team
from kernels.launch import Bind, Launch
from kernels.libs import cuda as cuda_library
from kernels.libs import torch as torch_library
from kernels.libs import torch_cuda
from kernels.native import launch
from kernels.ops.stream import cuda
from kernels.ops.stream.problem import Stream
from kernels.setting import Setting
from kernels.variant import CEILING, DEFAULT, Variant

if TYPE_CHECKING:
    from kernels.problem import Array

SOURCE = Path(__file__).with_name("stream.c")


class Argument(ctypes.Structure):
    """What stream.c takes: its arrays and their length."""

    _fields_ = (("a", ctypes.c_void_p), ("b", ctypes.c_void_p), ("y", ctypes.c_void_p), ("count", ctypes.c_int64))


PASS = 1 << 20  # bytes that a launch reads, at least: a little many times, beside which summing it up is 1 %
SLICE, LAUNCH = 256 << 10, 16 << 20  # bytes that a thread of several reads in turn, and in a launch, at least
LINE = 16  # floats of a cache line, which threads do not share
APART = 16  # numbers of float64 from one thread's sum to the next, in stream.c


class Read(ctypes.Structure):
    """What stream_read takes."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("a", "y")),
        *((name, ctypes.c_int64) for name in ("count", "again")),
    )


class Shared(ctypes.Structure):
    """What stream_read_part takes."""

    _fields_ = (
        *team.PLAN,
        *((name, ctypes.c_void_p) for name in ("a", "y", "sums")),
        *((name, ctypes.c_int64) for name in ("count", "length", "again")),
    )


def _read_by_several(problem: Stream, threads: int, flags: tuple[str, ...]) -> Bind:
    """Each thread its own part, again and again within a launch: of a little, starting them would take longer than
    reading it. A thread that is late leaves slices to the others. Raises Unavailable."""
    import numpy as np

    own = -(-problem.count // threads)
    slices = max(1, 4 * own // SLICE)
    length = -(-own // slices)
    again = max(1, PASS // (4 * length)) if slices == 1 else 1
    passes = max(1, -(-LAUNCH // (4 * own * again)))
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
    flags = own.flags(setting)
    kernel = own.compiled(SOURCE, flags, setting)
    made = _traffic(problem, setting, flags)

    def bind(buffers: Sequence[Array]) -> Launch:
        return replace(made(buffers), kernel=kernel)

    return bind


def _traffic(problem: Stream, setting: Setting, flags: tuple[str, ...]) -> Bind:
    if problem.kind == "read":
        several = setting.threads > 1
        return _read_by_several(problem, setting.threads, flags) if several else _read(problem, flags)
    function = build.address(SOURCE, f"stream_{problem.kind}", flags)
    names = [operand.name for operand in problem.operands()]
    axis = own.Axis("count", problem.count, dict.fromkeys("aby", 4), LINE)
    return lambda buffers: own.launched(function, Argument(count=problem.count), names, buffers, setting, axis)


def copies(problem: Stream) -> str | None:
    """For what only copies."""
    return None if problem.kind == "copy" else "it copies, and nothing else: --kind copy"


def numpy_copyto(problem: Stream, device: object, setting: object) -> Bind:
    import numpy as np

    return lambda buffers: Launch(partial(np.copyto, buffers[1], buffers[0]))


def libc_memcpy(problem: Stream, device: object, setting: object) -> Bind:
    function = build.address(SOURCE.with_name("memcpy.c"), "stream_memcpy")
    return lambda buffers: launch(function, Argument(count=problem.count), "ay", buffers)


def torch_cpu_copy(problem: Stream, device: object, setting: Any) -> Bind:
    torch = torch_library.load()
    torch.set_num_threads(setting.threads)

    def bind(buffers: Sequence[Array]) -> Launch:
        source, target = (torch_library.tensor(torch, buffer) for buffer in buffers)
        return Launch(partial(target.copy_, source))

    return bind


def memcpy(problem: Stream, device: Any, setting: object) -> Bind:
    """cudaMemcpyAsync from device to device."""
    runtime, stream = device.cp.cuda.runtime, device.stream.ptr

    def bind(buffers: Sequence[Any]) -> Launch:
        source, target = (int(buffer.data.ptr) for buffer in buffers)
        kind = runtime.memcpyDeviceToDevice
        call = partial(runtime.memcpyAsync, target, source, 4 * problem.count, kind, stream)

        def run(keep: object = buffers) -> None:
            call()

        return Launch(run, capturable=True, kernels=1)

    return bind


def cupy_copyto(problem: Stream, device: Any, setting: object) -> Bind:
    return lambda buffers: Launch(partial(device.cp.copyto, buffers[1], buffers[0]), kernels=1)


def torch_copy(problem: Stream, device: Any, setting: object) -> Bind:
    torch = torch_cuda.load(device)

    def bind(buffers: Sequence[Any]) -> Launch:
        source, target = (torch_cuda.tensor(torch, buffer) for buffer in buffers)

        def run(keep: object = buffers) -> None:
            target.copy_(source)

        return Launch(run, kernels=1)

    return bind


VARIANTS: tuple[Variant[Stream], ...] = (
    Variant("c", "cpu", "suite", prepare, roles=(DEFAULT, CEILING)),
    Variant("numpy", "cpu", "numpy", numpy_copyto, accepts=copies, python=True),
    Variant("memcpy", "cpu", "libc", libc_memcpy, accepts=copies, roles=()),
    Variant(
        "torch",
        "cpu",
        "torch",
        torch_cpu_copy,
        accepts=copies,
        missing=torch_library.missing,
        kernel=torch_library.kernel,
        python=True,
        roles=(),
    ),
    Variant(
        "cuda",
        "cuda",
        "suite",
        missing=cuda_library.missing,
        prepare=grid.prepared(
            cuda.SOURCE, lambda problem, device: cuda.launches(problem, f"stream_{problem.kind}", device.processors)
        ),
        roles=(DEFAULT, CEILING),
    ),
    Variant(
        "memcpy-cuda", "cuda", "cuda", memcpy, accepts=copies, missing=cuda_library.missing, kernel=cuda_library.kernel
    ),
    Variant(
        "cupy",
        "cuda",
        "cupy",
        cupy_copyto,
        accepts=copies,
        missing=cuda_library.missing,
        kernel=cuda_library.kernel,
        python=True,
    ),
    Variant(
        "torch-cuda",
        "cuda",
        "torch",
        torch_copy,
        accepts=copies,
        missing=torch_cuda.missing,
        kernel=torch_cuda.kernel,
        python=True,
    ),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
