"""Batch normalization and local response normalization by cuDNN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kernels.launch import in_order
from kernels.libs import cuda, cudnn, cudnn_layers
from kernels.ops.gemm.cublas import addresses
from kernels.ops.norm.problem import Norm
from kernels.ops.norm.truth import ALPHA, BETA, BIAS, EPSILON, WIDTH
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.launch import Bind, Launch
    from kernels.setting import Setting


MOST_IMAGES = {"frozen": 65_535, "train": 880_801}  # above PyTorch takes its own (ATen/native/Normalization.cpp)


def prepare(problem: Norm, device: Any, setting: Setting) -> Bind:
    """A call forward, of a step another one."""
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
    """`earlier`: a mean and a variance that were kept, or none."""
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
    """Why cuDNN's calls cannot do it."""
    if problem.mode == "frozen" and problem.step:
        return "cuDNN has no gradient of kept statistics: --phase forward, or --mode train"
    if problem.method == "batch" and problem.images > (most := MOST_IMAGES[problem.mode]):
        return f"cuDNN fails above {most} images: --images {most} or fewer"
    return cudnn_layers.too_many(problem.count)


VARIANT: Variant[Norm] = Variant(
    "cudnn", "cuda", "cudnn", prepare, accepts=accepts, missing=cuda.libraries_missing, python=True
)
