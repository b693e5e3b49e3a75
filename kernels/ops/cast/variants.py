"""Conversions, clears and fills: ours, memset, NumPy, PyTorch; on a GPU ours and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernels import grid, maths
from kernels.launch import Bind, Launch, held
from kernels.lazy import np
from kernels.libs import torch as torch_library
from kernels.libs import torch_cuda
from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.torch import TORCH
from kernels.libs.torch_cuda import TORCH_CUDA
from kernels.native import structure
from kernels.nvcc import Geometry, over
from kernels.ops.cast.problem import FILL, KINDS, Cast, doubles
from kernels.provider import LIBC, NUMPY, SUITE
from kernels.setting import Setting
from kernels.variant import Variant, row

SOURCE, CUDA_SOURCE = Path(__file__).with_name("cast.c"), Path(__file__).with_name("cast.cu")
KERNELS = tuple(f"cast_{kind.replace('-', '_')}" for kind in KINDS)  # of cast.c and cast.cu
THREADS, EACH = 256, 4  # of a block; elements of a thread
Argument = structure("pointer: x y", "int64: values")  # C struct `argument` of cast.c


def kernel(problem: Cast) -> str:
    """Return the name of the kernel, in C and in CUDA, that solves `problem`."""
    return KERNELS[KINDS.index(problem.convert)]


def launches(problem: Cast, name: str) -> tuple[Geometry, ...]:
    """Return the one launch of `problem`."""
    blocks = -(-problem.values // (EACH * THREADS))
    return (over(name, blocks, THREADS, [x.name for x in problem.operands()], problem.values),)


def _source(problem: Cast, x: Any) -> Any:
    return doubles(x) if problem.types and problem.types[0] == "f64" else x


def numpy_copyto(problem: Cast, device: object, setting: Setting) -> Bind:
    maths.alone(setting)

    def bind(buffers: Sequence[Any]) -> Launch:
        *x, y = buffers
        if not x:
            return Launch(partial(y.fill, FILL if problem.convert == "fill" else 0))
        return Launch(partial(np.copyto, y, _source(problem, x[0]), casting="same_kind"))

    return bind


def torch_copy(problem: Cast, device: object, setting: Setting) -> Bind:
    torch = torch_library.on_threads(setting.threads)

    def bind(buffers: Sequence[Any]) -> Launch:
        *x, y = buffers
        sources = [torch_library.tensor(torch, _source(problem, buffer)) for buffer in x]
        return Launch(_torch_pass(problem, torch_library.tensor(torch, y), sources))

    return bind


def _torch_pass(problem: Cast, to: Any, sources: Sequence[Any]) -> Callable[[], Any]:
    """Return the call that fills or clears the tensor `to`, or copies the source into it."""
    if sources:
        return partial(to.copy_, sources[0])
    return partial(to.fill_, FILL) if problem.convert == "fill" else partial(to.zero_)


def torch_cuda_copy(problem: Cast, device: Any, setting: object) -> Bind:
    torch = torch_cuda.load(device)

    def bind(buffers: Sequence[Any]) -> Launch:
        *x, y = buffers
        double = problem.types is not None and problem.types[0] == "f64"
        sources = [torch_cuda.tensor(torch, buffer.view("f8") if double else buffer) for buffer in x]
        run = _torch_pass(problem, torch_cuda.tensor(torch, y), sources)
        return held(run, buffers, kernels=1)

    return bind


def _known(problem: Cast) -> str | None:
    return "NumPy has no bfloat16" if "bf16" in problem.convert else None


def _clears(problem: Cast) -> str | None:
    return None if problem.convert == "clear" else "it only clears memory: --convert clear"


VARIANTS: tuple[Variant[Cast], ...] = (
    row(SUITE, "c", maths.prepared(SOURCE, kernel, Argument)),
    row(LIBC, "memset", maths.prepared(SOURCE, lambda p: "cast_memset", Argument), accepts=_clears, roles=()),
    row(NUMPY, "numpy", numpy_copyto, accepts=_known),
    row(TORCH, "torch", torch_copy),
    row(CUDA_SUITE, "cuda", grid.solving(CUDA_SOURCE, launches, kernel)),
    row(TORCH_CUDA, "torch-cuda", torch_cuda_copy),
)
