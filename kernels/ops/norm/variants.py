"""Normalizations, with or without gradients: ours, NumPy, PyTorch and cuDNN.

Ours compute the statistics in one pass, in two, by Welford's recurrence, or operation by operation.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernels import grid, maths
from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs import torch as torch_library
from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.cudnn import CUDNN
from kernels.libs.torch import TORCH
from kernels.native import structure
from kernels.ops.norm import gpu
from kernels.ops.norm.problem import ALPHA, BETA, BIAS, EPSILON, WIDTH, Norm
from kernels.provider import NUMPY, SUITE
from kernels.setting import Setting
from kernels.variant import Variant, row

SOURCE = Path(__file__).with_name("norm.c")
GRADIENTS = ("dx", "dscale", "dshift")
# C struct `argument` of norm.c
Argument = structure(
    "pointer: x scale shift dy y mean rstd dx dscale dshift kept_mean kept_variance scratch",
    "int64: images channels area",
)


def _argument(problem: Norm) -> tuple[ctypes.Structure, tuple[object, ...]]:
    mean, variance = problem.kept()
    argument = Argument(
        kept_mean=mean.ctypes.data,
        kept_variance=variance.ctypes.data,
        images=problem.images,
        channels=problem.channels,
        area=problem.size**2,
    )
    return argument, (mean, variance)


def numpy_chain(problem: Norm, device: object, setting: Setting) -> Bind:
    maths.alone(setting)
    spare = np.empty((problem.images, problem.channels, problem.size**2), np.float32)
    kept = [array[:, None] for array in problem.kept()]

    def frozen(x: Any, scale: Any, shift: Any, y: Any) -> None:
        np.subtract(x, kept[0], out=y)
        np.divide(y, np.sqrt(kept[1] + np.float32(EPSILON)), out=y)
        np.multiply(y, scale[0, :, None], out=y)
        np.add(y, shift[0, :, None], out=y)

    def train(x: Any, scale: Any, shift: Any, y: Any, mean: Any, rstd: Any) -> None:
        np.mean(x, axis=(0, 2), out=mean)
        np.subtract(x, mean[:, None], out=y)
        np.mean(np.multiply(y, y, out=spare), axis=(0, 2), out=rstd)
        np.sqrt(np.add(rstd, np.float32(EPSILON), out=rstd), out=rstd)
        np.reciprocal(rstd, out=rstd)
        np.multiply(y, rstd[:, None], out=y)
        np.multiply(y, scale[0, :, None], out=y)
        np.add(y, shift[0, :, None], out=y)

    def lrn(x: Any, y: Any) -> None:
        np.multiply(x, x, out=spare)
        np.copyto(y, spare)
        for away in range(1, WIDTH // 2 + 1):
            y[:, away:] += spare[:, :-away]
            y[:, :-away] += spare[:, away:]
        np.multiply(y, np.float32(ALPHA / WIDTH), out=y)
        np.add(y, np.float32(BIAS), out=y)
        np.sqrt(y, out=y)
        np.sqrt(y, out=spare)
        np.multiply(y, spare, out=y)
        np.divide(x, y, out=y)

    run = lrn if problem.method == "lrn" else train if problem.keeps else frozen
    return lambda buffers: Launch(partial(run, *buffers))


def torch_out(problem: Norm, device: object, setting: Setting) -> Bind:
    """Prepare the operators of F.batch_norm and F.local_response_norm; results they allocate are copied."""
    torch = torch_library.on_threads(setting.threads)
    run = _torch_local(problem, torch) if problem.method == "lrn" else _torch_batch(problem, torch)
    names = [operand.name for operand in problem.operands()]

    def bind(buffers: Sequence[Any]) -> Launch:
        tensors = (torch_library.tensor(torch, x) for x in buffers)
        return Launch(partial(run, **dict(zip(names, tensors, strict=True))))

    return bind


def _torch_batch(problem: Norm, torch: Any) -> Callable[..., None]:
    aten, unused = torch.ops.aten, torch.empty(0)  # frozen statistics save nothing
    kept = [torch.from_numpy(array) for array in problem.kept()] if problem.mode == "frozen" else [None, None]

    def forward(x: Any, scale: Any, shift: Any, y: Any, mean: Any = unused, rstd: Any = unused) -> None:
        given = (x, scale[0], shift[0], *kept, problem.keeps, 0.0, EPSILON)
        aten.native_batch_norm.out(*given, out=y, save_mean=mean, save_invstd=rstd)

    def step(x: Any, scale: Any, dy: Any, mean: Any = unused, rstd: Any = unused, **rest: Any) -> None:
        forward(x, scale, rest["shift"], rest["y"], mean, rstd)
        given = (dy, x, scale[0], *kept, mean, rstd, problem.keeps, EPSILON, [True, True, True])
        for name, gradient in zip(GRADIENTS, aten.native_batch_norm_backward(*given), strict=True):
            rest[name].copy_(gradient)

    return step if problem.step else forward


def _torch_local(problem: Norm, torch: Any) -> Callable[..., None]:
    """Return a function of local response normalization, whose gradient comes from autograd."""
    local = partial(torch.nn.functional.local_response_norm, size=WIDTH, alpha=ALPHA, beta=BETA, k=BIAS)

    def forward(x: Any, y: Any) -> None:
        y.copy_(local(x))

    def step(x: Any, dy: Any, y: Any, dx: Any) -> None:
        with torch.enable_grad():
            image = x.detach().requires_grad_()
            answer = local(image)
            (gradient,) = torch.autograd.grad(answer, image, dy)
        y.copy_(answer.detach())
        dx.copy_(gradient)

    return step if problem.step else forward


def _forward(problem: Norm) -> str | None:
    return "requires --phase forward" if problem.step else None


def _training(problem: Norm) -> str | None:
    if problem.method == "batch" and problem.mode == "train":
        return _forward(problem)
    return "computes only batch statistics: --method batch --mode train"


def _batch(problem: Norm) -> str | None:
    return None if problem.method == "batch" else "requires --method batch"


def _c_kernel(words: str = "") -> Callable[[Any, Any, Any], Bind]:
    def scratch(problem: Norm) -> int:
        if words == "_ops":
            return 4 * (problem.count + problem.channels)
        if problem.method == "batch" or not problem.step:
            return 0
        return 4 * (problem.count + problem.channels * problem.size**2)  # divisors of the batch, quotients of an image

    def symbol(problem: Norm) -> str:
        return f"{problem.method}_{problem.mode}{words}" + "_step" * problem.step

    return maths.prepared(SOURCE, symbol, _argument, scratch)


VARIANTS: tuple[Variant[Norm], ...] = (
    row(SUITE, "c", _c_kernel()),
    row(SUITE, "c-two-passes", _c_kernel("_two_passes"), accepts=_training, roles=()),
    row(SUITE, "c-welford", _c_kernel("_welford"), accepts=_training, roles=()),
    row(SUITE, "c-ops", _c_kernel("_ops"), accepts=_batch),
    row(NUMPY, "numpy", numpy_chain, accepts=_forward),
    row(TORCH, "torch", torch_out),
    row(CUDA_SUITE, "cuda", grid.solving(gpu.SOURCE, gpu.launches, gpu.kernel), accepts=gpu.refused),
    row(CUDNN, "cudnn", gpu.prepare, accepts=gpu.accepts),
)
