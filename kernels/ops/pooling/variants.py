"""Pooling by our C (indices stored or recomputed; ReLU fused, before or after), NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import grid, maths
from kernels.launch import Launch
from kernels.libs import torch as torch_library
from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.cudnn import CUDNN
from kernels.libs.torch import TORCH
from kernels.native import structure
from kernels.ops.pooling import gpu
from kernels.ops.pooling.problem import STRIDE, Pooling
from kernels.provider import NUMPY, SUITE
from kernels.variant import Variant, row

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.setting import Setting

SOURCE = Path(__file__).with_name("pooling.c")
# C struct `argument` of pooling.c
Argument = structure("pointer: x dy y dx scratch", "int64: images channels size edge")


def _c_kernel(kind: Callable[[Pooling], str]) -> Callable[[Any, Any, Any], Bind]:
    def scratch(problem: Pooling) -> int:
        """Return bytes for the indices and for ReLU's result or gradient in a separate pass."""
        floats = {"before": problem.inputs, "after": problem.results}.get(kind(problem), 0)
        return problem.results + 64 + 4 * floats

    return maths.prepared(SOURCE, lambda p: f"{kind(p)}_{p.layout}{p.window}_{p.phase}", Argument, scratch)


def numpy_chain(problem: Pooling, device: object, setting: Setting) -> Bind:
    """Prepare one pass over the whole batch for each place in a window."""
    import numpy as np

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
    """Prepare the operators with given outputs, ReLU before or after; NHWC is channels_last."""
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
    """Return `run(x, d, y, g)` of max pooling, with ReLU of x if `before`, else of the result."""
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
        return "it looks again for the maxima of a gradient: --pool max --phase step --relu no"
    return None


def _relu(problem: Pooling) -> str | None:
    return None if problem.relu == "yes" else "its ReLU is a pass of its own: --relu yes"


def _forward(problem: Pooling) -> str | None:
    return None if problem.phase == "forward" else "written for --phase forward"


def _fused(problem: Pooling) -> str:
    return "relu" if problem.relu == "yes" else problem.pool


VARIANTS: tuple[Variant[Pooling], ...] = (
    row(SUITE, "c", _c_kernel(_fused)),
    row(SUITE, "c-recompute", _c_kernel(lambda p: "again"), accepts=_maxima, roles=()),
    row(SUITE, "c-relu-before", _c_kernel(lambda p: "before"), accepts=_relu, roles=()),
    row(SUITE, "c-relu-after", _c_kernel(lambda p: "after"), accepts=_relu, roles=()),
    row(NUMPY, "numpy", numpy_chain, accepts=_forward),
    row(TORCH, "torch", torch_out),
    row(TORCH, "torch-relu-before", partial(torch_out, relu="before"), accepts=_relu, roles=()),
    row(CUDA_SUITE, "cuda", grid.solving(gpu.SOURCE, gpu.launches, gpu.kernel), accepts=gpu.refused),
    row(CUDNN, "cudnn", gpu.prepare, accepts=gpu.accepts, judged=gpu.any_maximum),
)
