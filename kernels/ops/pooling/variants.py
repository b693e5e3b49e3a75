"""Pooling by our C (argmax stored or recomputed; ReLU fused, before or after), NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from kernels import grid, maths
from kernels.launch import Bind, Launch, in_order
from kernels.lazy import np
from kernels.libs import cudnn, cudnn_layers
from kernels.libs import torch as torch_library
from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.cudnn import CUDNN
from kernels.libs.torch import TORCH
from kernels.native import structure
from kernels.nvcc import Geometry, over
from kernels.ops.gemm.cublas import addresses
from kernels.ops.pooling.problem import STRIDE, Pooling
from kernels.problem import Array, Arrays
from kernels.provider import NUMPY, SUITE
from kernels.setting import Setting
from kernels.variant import Variant, row

SOURCE = Path(__file__).with_name("pooling.c")
# C struct `argument` of pooling.c
Argument = structure("pointer: x dy y dx scratch", "int64: images channels size edge")


def _c_kernel(kind: Callable[[Pooling], str]) -> Callable[[Any, Any, Any], Bind]:
    def scratch(problem: Pooling) -> int:
        """Return bytes for argmax and, with ReLU in a separate pass, for that pass's result or gradient."""
        floats = {"before": problem.inputs, "after": problem.results}.get(kind(problem), 0)
        return problem.results + 64 + 4 * floats

    return maths.prepared(SOURCE, lambda p: f"{kind(p)}_{p.layout}{p.window}_{p.phase}", Argument, scratch)


def numpy_chain(problem: Pooling, device: object, setting: Setting) -> Bind:
    """Prepare one pass over the batch for each place in a window."""
    maths.alone(setting)
    join = np.maximum if problem.pool == "max" else np.add

    def bind(buffers: Sequence[Any]) -> Launch:
        x, result = (problem.planes(buffer) for buffer in buffers)
        first, second, *rest = problem.windows(x)

        def call() -> None:
            join(first, second, out=result)
            for view in rest:
                join(result, view, out=result)
            if problem.pool == "avg":
                np.multiply(result, np.float32(1 / problem.window**2), out=result)
            if problem.relu == "yes":
                np.maximum(result, 0, out=result)

        return Launch(call)

    return bind


def torch_out(problem: Pooling, device: object, setting: Setting, *, relu: str = "after") -> Bind:
    """Prepare the operators that write to given outputs, ReLU before or after; NHWC is channels_last."""
    torch = torch_library.on_threads(setting.threads)
    has_gradient = problem.phase == "step"
    run = _average(problem, torch) if problem.pool == "avg" else _largest(problem, torch, relu == "before")

    def bind(buffers: Sequence[Any]) -> Launch:
        tensors = [torch_library.tensor(torch, problem.planes(x)) for x in buffers]
        x, dy, y, dx = tensors if has_gradient else (tensors[0], None, tensors[1], None)
        return Launch(partial(run, x, dy, y, dx))

    return bind


def _average(problem: Pooling, torch: Any) -> Callable[..., None]:
    """Return `run(x, d, y, g)` of average pooling; d and g are None without a gradient."""
    aten, how = torch.ops.aten, ([problem.window] * 2, [STRIDE] * 2, [0, 0])

    def run(x: Any, d: Any, y: Any, g: Any) -> None:
        aten.avg_pool2d.out(x, *how, out=y)
        if g is not None:
            aten.avg_pool2d_backward.grad_input(d, x, *how, False, True, None, grad_input=g)

    return run


def _largest(problem: Pooling, torch: Any, before: bool) -> Callable[..., None]:
    """Return `run(x, d, y, g)` of max pooling, with ReLU (if any) on x if `before`, else on the result."""
    aten, how = torch.ops.aten, ([problem.window] * 2, [STRIDE] * 2, [0, 0])
    layout = torch.channels_last if problem.layout == "nhwc" else torch.contiguous_format
    first, last = (problem.relu == "yes" and before), (problem.relu == "yes" and not before)

    def spare(edge: int, dtype: Any = torch.float32) -> Any:
        size = (problem.images, problem.channels, edge, edge)
        return torch.empty(size, dtype=dtype, memory_format=layout)

    at, small, large = spare(problem.edge, torch.int64), spare(problem.edge), spare(problem.size)

    def run(x: Any, d: Any, y: Any, g: Any) -> None:
        given = aten.clamp_min.out(x, 0, out=large) if first else x
        aten.max_pool2d_with_indices.out(given, *how, out=y, indices=at)
        if last:
            y.relu_()
        if g is None:
            return
        slope = aten.threshold_backward.grad_input(d, y, 0, grad_input=small) if last else d
        aten.max_pool2d_with_indices_backward.grad_input(slope, given, *how, [1, 1], False, at, grad_input=g)
        if first:
            aten.threshold_backward.grad_input(g, given, 0, grad_input=g)

    return run


def _maxima(problem: Pooling) -> str | None:
    if problem.relu == "yes" or problem.pool == "avg" or problem.phase == "forward":
        return "recomputes the maxima for the gradient: --pool max --phase step --relu no"
    return None


def _relu(problem: Pooling) -> str | None:
    return None if problem.relu == "yes" else "runs ReLU as a separate pass: --relu yes"


def _forward(problem: Pooling) -> str | None:
    return None if problem.phase == "forward" else "requires --phase forward"


def _fused(problem: Pooling) -> str:
    return "relu" if problem.relu == "yes" else problem.pool


CUDA_SOURCE = Path(__file__).with_name("pooling.cu")
KERNELS = tuple(f"pooling_{pool}_{phase}" for pool in ("max", "avg") for phase in ("forward", "dgrad"))
THREADS = 256  # threads of a block, one per result or pixel
PLACES = 1 << 31  # elements of an image below which indices fit into 32 bits


def kernel(problem: Pooling) -> str:
    """Return the name of the last kernel that solves `problem`."""
    return f"pooling_{problem.pool}_{'dgrad' if problem.phase == 'step' else 'forward'}"


def launches(problem: Pooling, name: str) -> tuple[Geometry, ...]:
    """Return the forward launch and, for a step, the gradient's."""
    relu = int(problem.relu == "yes")
    forward = _over(problem, f"pooling_{problem.pool}_forward", problem.edge, ("x", "y"), relu)
    if problem.phase == "forward":
        return (forward,)
    maximum = problem.pool == "max"
    read, more = (("x", "dy"), (relu,)) if maximum else (("dy",), ())
    return forward, _over(problem, name, problem.size, (*read, "dx"), *more)


def refused(problem: Pooling) -> str | None:
    """Return why the CUDA kernels cannot run `problem`, or None."""
    large = problem.inputs // problem.images >= PLACES
    return f"--size {problem.size}, {problem.channels} channels: an image exceeds 2^31 - 1 elements" if large else None


def _over(problem: Pooling, name: str, edge: int, operands: tuple[str, ...], *more: int) -> Geometry:
    """Return a launch of one thread per element of images of width `edge`, each image in separate blocks."""
    blocks = -(-problem.channels * edge**2 // THREADS)
    sizes = (blocks, problem.channels, problem.size, problem.edge, problem.window, int(problem.layout == "nhwc"))
    return over(name, problem.images * blocks, THREADS, operands, *sizes, *more)


@dataclass(frozen=True)
class AnyMaximum(Pooling):
    """Pooling whose gradient may go to any of equal maxima: cuDNN does not specify which."""

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        bounds = super().bound(x, want, u)
        if self.phase == "step" and self.pool == "max":
            views, slope = np.stack(self.windows(self.planes(x["x"]))), np.abs(self.planes(x["dy"]))
            top = views == views.max(axis=0)
            tied = np.where(top & (top.sum(axis=0) > 1), slope, 0)
            for view, more in zip(self.windows(self.planes(bounds["dx"])), tied, strict=True):
                view += more
        return bounds


def any_maximum(problem: Pooling) -> Pooling:
    """Return `problem` with bounds that accept a gradient at any of equal maxima."""
    return AnyMaximum(**{x.name: getattr(problem, x.name) for x in fields(problem)})


def by_cudnn(problem: Pooling, device: Any, setting: Setting) -> Bind:
    """Prepare cuDNN's forward call and, for a step, the gradient's."""
    on = device.dnn()
    how = cudnn_layers.pooling(on, problem.pool, problem.window, STRIDE)
    large, small = (
        cudnn.tensor(on, (problem.images, problem.channels, edge, edge), problem.layout)
        for edge in (problem.size, problem.edge)
    )
    names = [operand.name for operand in problem.operands()]

    def bind(buffers: Sequence[Any]) -> Launch:
        at = dict(zip(names, addresses(buffers), strict=True))
        x, y = (large, at["x"]), (small, at["y"])
        calls = [cudnn_layers.pool(on, how, x, y)]
        if problem.phase == "step":
            calls.append(cudnn_layers.pool_gradient(on, how, y, (small, at["dy"]), x, (large, at["dx"])))
        return in_order(calls, buffers, cudnn_layers.KERNELS, kernel=cudnn.kernel())

    return bind


def cudnn_accepts(problem: Pooling) -> str | None:
    """Return why cuDNN's calls cannot run `problem`, or None."""
    if problem.relu == "yes":
        return "cuDNN's poolings have no ReLU: --relu no"
    return cudnn_layers.too_many(problem.inputs)


VARIANTS: tuple[Variant[Pooling], ...] = (
    row(SUITE, "c", _c_kernel(_fused)),
    row(SUITE, "c-recompute", _c_kernel(lambda p: "again"), accepts=_maxima, roles=()),
    row(SUITE, "c-relu-before", _c_kernel(lambda p: "before"), accepts=_relu, roles=()),
    row(SUITE, "c-relu-after", _c_kernel(lambda p: "after"), accepts=_relu, roles=()),
    row(NUMPY, "numpy", numpy_chain, accepts=_forward),
    row(TORCH, "torch", torch_out),
    row(TORCH, "torch-relu-before", partial(torch_out, relu="before"), accepts=_relu, roles=()),
    row(CUDA_SUITE, "cuda", grid.solving(CUDA_SOURCE, launches, kernel), accepts=refused),
    row(CUDNN, "cudnn", by_cudnn, accepts=cudnn_accepts, judged=any_maximum),
)
