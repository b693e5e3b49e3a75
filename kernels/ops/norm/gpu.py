"""Batch and local response normalization by our CUDA kernels and by cuDNN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels.launch import Bind, Launch, in_order
from kernels.libs import cudnn, cudnn_layers
from kernels.nvcc import Geometry, over
from kernels.ops.gemm.cublas import addresses
from kernels.ops.norm.problem import ALPHA, BETA, BIAS, EPSILON, KEPT, WIDTH, Norm
from kernels.setting import Setting

SOURCE = Path(__file__).with_name("norm.cu")
READ_AND_WRITTEN = {
    "norm_train_forward": ("x", "scale", "shift", "y", "mean", "rstd"),
    "norm_train_dgrad": ("x", "scale", "dy", "mean", "rstd", "dx", "dscale", "dshift"),
    "norm_frozen_forward": ("x", "scale", "shift", "y"),
    "norm_frozen_dgrad": ("x", "scale", "dy", "dx", "dscale", "dshift"),
    "norm_lrn_forward": ("x", "y"),
    "norm_lrn_dgrad": ("x", "dy", "dx"),
}
KERNELS = tuple(READ_AND_WRITTEN)
THREADS = 256  # of a block; batch normalization has one block per channel
ELEMENTS = 1 << 31  # elements of a channel, which are counted in 32 bits
NUMBERS = {"norm_train_forward": EPSILON, "norm_lrn_forward": ALPHA / WIDTH, "norm_lrn_dgrad": ALPHA / WIDTH}


def kernel(problem: Norm) -> str:
    """Return the name of the last kernel of `problem`: the gradient's in a step, else the forward one's."""
    kind = "lrn" if problem.method == "lrn" else problem.mode
    return f"norm_{kind}_{'dgrad' if problem.step else 'forward'}"


def refused(problem: Norm) -> str | None:
    """Return why no kernel can run `problem`, or None if one can."""
    many = problem.images * problem.size**2 >= ELEMENTS
    return f"--images {problem.images}: a channel must have fewer than 2^31 elements" if many else None


def launches(problem: Norm, name: str) -> tuple[Geometry, ...]:
    """Return the forward launch, for a step also the gradient's."""
    of_step = (name.replace("dgrad", "forward"), name)
    return tuple(_launch(problem, kernel_name) for kernel_name in (of_step if problem.step else (name,)))


def _launch(problem: Norm, name: str) -> Geometry:
    small = [NUMBERS[name]] if name in NUMBERS else []
    if problem.mode == "frozen":  # the kept statistics of KEPT channels, after which they repeat
        small = [*(float(x) for array in replace(problem, maps=KEPT).kept() for x in array), EPSILON]
    blocks = -(-problem.count // THREADS) if problem.method == "lrn" else problem.channels
    sizes = (problem.images, problem.channels, problem.size**2)
    return over(name, blocks, THREADS, READ_AND_WRITTEN[name], *sizes, *small)


MOST_IMAGES = {"frozen": 65_535, "train": 880_801}  # above, PyTorch uses its kernels (ATen/native/Normalization.cpp)


def prepare(problem: Norm, device: Any, setting: Setting) -> Bind:
    """Prepare cuDNN's forward call, for a step also the gradient's."""
    on = device.dnn()
    images = cudnn.tensor(on, (problem.images, problem.channels, problem.size, problem.size))
    earlier = [device.cp.asarray(array) for array in problem.kept()] if problem.mode == "frozen" else []
    calls_of = _response(on, images) if problem.method == "lrn" else _batch(on, images, problem.step, earlier)
    workspace = sum(int(array.nbytes) for array in earlier)
    names = [operand.name for operand in problem.operands()]

    def bind(buffers: Sequence[Any]) -> Launch:
        calls = calls_of(dict(zip(names, addresses(buffers), strict=True)))
        return in_order(calls, (buffers, earlier), cudnn_layers.KERNELS, workspace, kernel=cudnn.kernel())

    return bind


def _batch(on: cudnn.Cudnn, images: Any, step: bool, earlier: Sequence[Any]) -> Callable[[dict[str, int]], list[Any]]:
    """Return a function from addresses to cuDNN's calls; `earlier`: kept mean and variance, or empty."""
    row = cudnn_layers.of_channels(on, images)

    def calls(at: dict[str, int]) -> list[Any]:
        x, y, gain = (images, at["x"]), (images, at["y"]), (at["scale"], at["shift"])
        if earlier:
            mean, variance = addresses(earlier)
            return [cudnn_layers.normalize_frozen(on, x, y, row, gain, EPSILON, (mean, variance))]
        kept = (at["mean"], at["rstd"])
        forward = cudnn_layers.normalize(on, x, y, row, gain, EPSILON, kept)
        if not step:
            return [forward]
        dy, dx, of_gain = (images, at["dy"]), (images, at["dx"]), (at["dscale"], at["dshift"])
        return [forward, cudnn_layers.normalize_gradient(on, x, dy, dx, row, at["scale"], of_gain, EPSILON, kept)]

    return calls


def _response(on: cudnn.Cudnn, images: Any) -> Callable[[dict[str, int]], list[Any]]:
    how = cudnn_layers.response(on, WIDTH, ALPHA, BETA, BIAS)

    def calls(at: dict[str, int]) -> list[Any]:
        forward = cudnn_layers.respond(on, how, (images, at["x"]), (images, at["y"]))
        if "dy" not in at:
            return [forward]
        given = ((images, at[name]) for name in ("y", "dy", "x", "dx"))
        return [forward, cudnn_layers.respond_gradient(on, how, *given)]

    return calls


def accepts(problem: Norm) -> str | None:
    """Return why cuDNN's calls cannot run `problem`, or None if they can."""
    if problem.mode == "frozen" and problem.step:
        return "cuDNN has no gradient with frozen statistics: --phase forward, or --mode train"
    if problem.method == "batch" and problem.images > (most := MOST_IMAGES[problem.mode]):
        return f"cuDNN fails above {most} images: --images {most} or fewer"
    return cudnn_layers.too_many(problem.count)
