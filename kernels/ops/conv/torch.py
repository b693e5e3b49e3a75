"""PyTorch's convolutions, by its dispatcher's choice or by named operator.

PyTorch allocates the result and copies it to the operand, because no convolution writes into `out` directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs import torch as torch_library
from kernels.libs.torch import TORCH
from kernels.ops.conv.problem import Conv, spread
from kernels.problem import Work
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant, row

Call: TypeAlias = "Callable[[], object]"
Calls: TypeAlias = "Callable[[Conv, Any, tuple[Any, Any, Any]], Call]"  # (problem, torch, three plain tensors)
GRADIENTS = {"dgrad": [True, False, False], "wgrad": [False, True, False]}
# Error growth allowed for F(6,3) of PyTorch's NNPACK. The largest errors seen, in shares of a direct sum's bounds
# (kernels/ops/conv/truth.py), are 3.4 on dense and 9.5 on sparse data, on the smallest images.
NNPACK_GROWTH = 16.0


def prepared(calls: Calls, needs: Callable[[Conv], int] | None = None) -> Callable[[Conv, object, Setting], Bind]:
    """Return a `prepare` of PyTorch calls; nhwc operands are passed as channels_last tensors.

    A call on zeros determines the kernel's name and the workspace, unless `needs` returns the workspace's bytes."""

    def prepare(problem: Conv, device: object, setting: Setting) -> Bind:
        torch = torch_library.on_threads(setting.threads)
        sample = _bound(calls, problem, torch, [np.zeros(x.shape, np.float32) for x in problem.operands()])
        named = torch_library.named(torch, sample, "convolution") or torch_library.kernel()
        workspace = needs(problem) if needs else torch_library.peak(torch, sample)

        def bind(buffers: Sequence[Any]) -> Launch:
            return Launch(_bound(calls, problem, torch, buffers), workspace=workspace, kernel=named)

        return bind

    return prepare


def _bound(calls: Calls, problem: Conv, torch: Any, buffers: Sequence[Any]) -> Call:
    first, second, result = (torch_library.tensor(torch, problem.plain(x)) for x in buffers)
    return calls(problem, torch, (first, second, result))


def default(problem: Conv, torch: Any, tensors: tuple[Any, Any, Any]) -> Call:
    """Return a call of aten::convolution or aten::convolution_backward."""
    how = _how(problem, [problem.pad_top, problem.pad_left])
    first, second, result = tensors
    if problem.direction == "forward":
        return lambda: torch.ops.aten.convolution.out(first, second, None, *how, out=result)
    # Only shape and strides of the gradient's operand are read, no values.
    dy, x, w = (first, result, second) if problem.direction == "dgrad" else (second, first, result)
    return lambda: result.copy_(_gradient(problem, torch, dy, x, w, how))


def padded(problem: Conv, torch: Any, tensors: tuple[Any, Any, Any]) -> Call:
    """Return a call that pads the image in a separate operation and convolves without padding.

    In dgrad the padded image's gradient is cropped."""
    how = _how(problem, [0, 0])
    pads = [problem.pad_left, problem.pad_right, problem.pad_top, problem.pad_bottom]
    pad = partial(torch.ops.aten.constant_pad_nd, pad=pads)
    first, second, result = tensors
    if problem.direction == "forward":
        return lambda: torch.ops.aten.convolution.out(pad(first), second, None, *how, out=result)
    if problem.direction == "wgrad":
        return lambda: result.copy_(_gradient(problem, torch, second, pad(first), result, how))
    image = pad(result)
    rows = slice(problem.pad_top, problem.pad_top + problem.h)
    columns = slice(problem.pad_left, problem.pad_left + problem.w)
    return lambda: result.copy_(_gradient(problem, torch, first, image, second, how)[:, :, rows, columns])


def biased(problem: Conv, torch: Any, tensors: tuple[Any, Any, Any]) -> Call:
    """Return a call with a bias of zeros; wgrad also computes the bias's gradient, sums over dy."""
    how = _how(problem, [problem.pad_top, problem.pad_left])
    first, second, result = tensors
    if problem.direction == "forward":
        zeros = torch.zeros(problem.k)
        return lambda: torch.ops.aten.convolution.out(first, second, zeros, *how, out=result)
    both = ([problem.k], *how, [False, True, True])
    return lambda: result.copy_(torch.ops.aten.convolution_backward(second, first, result, *both)[1])


def between_conversions(problem: Conv, torch: Any, tensors: tuple[Any, Any, Any]) -> Call:
    """Return a call that converts images to channels_last, convolves, and converts the result back.

    The library reorders the filter in either layout."""
    last = partial(torch.Tensor.contiguous, memory_format=torch.channels_last)
    how = _how(problem, [problem.pad_top, problem.pad_left])
    first, second, result = tensors
    if problem.direction == "forward":
        return lambda: torch.ops.aten.convolution.out(last(first), second, None, *how, out=result)
    if problem.direction == "wgrad":
        return lambda: result.copy_(_gradient(problem, torch, last(second), last(first), result, how))
    _, c, h, w = result.shape
    image = result.as_strided(result.shape, (c * h * w, 1, w * c, c))  # no value is read
    return lambda: result.copy_(_gradient(problem, torch, last(first), image, second, how))


def _how(problem: Conv, pads: list[int]) -> tuple[Any, ...]:
    return [problem.stride] * 2, pads, [problem.dilation] * 2, False, [0, 0], problem.groups


def _gradient(problem: Conv, torch: Any, dy: Any, x: Any, w: Any, how: tuple[Any, ...]) -> Any:
    mask = GRADIENTS[problem.direction]
    return torch.ops.aten.convolution_backward(dy, x, w, None, *how, mask)[mask.index(True)]


def without_onednn(problem: Conv, torch: Any, tensors: tuple[Any, Any, Any]) -> Call:
    """Return a call with oneDNN off: NNPACK forward for 16 images and more, PyTorch's im2col otherwise."""
    return torch_library.without_onednn(torch, default(problem, torch, tensors))


def columns(problem: Conv, torch: Any, tensors: tuple[Any, Any, Any]) -> Call:
    """Return a call of im2col and one product per image, PyTorch's choice for few, small images."""
    aten = torch.ops.aten
    how = ([problem.r, problem.s], [problem.stride] * 2, [problem.pad_top, problem.pad_left])
    first, second, result = tensors
    if problem.direction == "forward":
        taps, *places = how
        return lambda: aten._slow_conv2d_forward.output(first, second, taps, None, *places, output=result)
    dy, x, w = (first, result, second) if problem.direction == "dgrad" else (second, first, result)
    mask = GRADIENTS[problem.direction]
    at = mask.index(True)
    return lambda: result.copy_(aten._slow_conv2d_backward.output_mask(dy, x, w, *how, mask)[at])


def symmetric(problem: Conv) -> str | None:
    """Return why PyTorch's padding argument cannot express a problem's padding, or None if it can."""
    if (problem.pad_top, problem.pad_left) != (problem.pad_bottom, problem.pad_right):
        return "its padding is symmetric: set --pad-bottom as --pad-top, --pad-right as --pad-left"
    return strided(problem)


def strided(problem: Conv) -> str | None:
    """Return why tensors cannot have a problem's layout, or None if they can."""
    return None if problem.layout != "nchw16c" else "layout not supported: --layout nchw or nhwc"


def with_bias(problem: Conv) -> str | None:
    """Return why `torch-bias` does not apply to a problem, or None if it does."""
    if problem.direction == "dgrad":
        return "dgrad does not involve a bias: --direction forward,wgrad"
    return symmetric(problem)


def channels_before(problem: Conv) -> str | None:
    """Return why `torch-relayout` does not apply to a problem, or None if it does."""
    return symmetric(problem) if problem.layout == "nchw" else "its input layout must be nchw: --layout nchw"


def in_columns(problem: Conv) -> str | None:
    """Return why PyTorch's im2col cannot do a problem, or None if it can."""
    if problem.groups > 1 or problem.dilation > 1:
        return "its im2col supports no groups or dilation: --groups 1 --dilation 1"
    return symmetric(problem)


def columns_bytes(problem: Conv) -> int:
    """Return the bytes of the columns of all images; 1 × 1 filters at stride 1 without padding need none."""
    if (problem.r, problem.s, problem.stride) == (1, 1, 1) and not problem.pad_top + problem.pad_left:
        return 0
    return 4 * problem.n * problem.c * problem.r * problem.s * problem.outputs_of_image


def sums_and_bias(problem: Conv) -> Work:
    """Return the work of direct sums and the bias: one more addition for each element of y or dy."""
    return Work(problem.inside + problem.n * problem.k * problem.outputs_of_image, problem.bytes)


ROWS: tuple[Variant[Conv], ...] = (
    row(
        TORCH, "torch", prepared(default), accepts=symmetric, work=Conv.direct_work, roles=(DEFAULT, "sums", "layouts")
    ),
    row(TORCH, "torch-pad", prepared(padded), accepts=strided, work=Conv.direct_work, roles=()),
    row(TORCH, "torch-bias", prepared(biased), accepts=with_bias, work=sums_and_bias, roles=()),
    row(
        TORCH, "torch-relayout", prepared(between_conversions), accepts=channels_before, work=Conv.direct_work, roles=()
    ),
    row(
        TORCH,
        "torch-without-onednn",
        prepared(without_onednn),
        growth=NNPACK_GROWTH,
        accepts=symmetric,
        judged=spread,
        roles=(),
    ),
    row(TORCH, "torch-im2col", prepared(columns, columns_bytes), accepts=in_columns, roles=()),
)
