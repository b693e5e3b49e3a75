"""PyTorch's convolutions, as its own dispatcher chooses them and by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kernels.launch import Launch
from kernels.libs import torch as torch_library
from kernels.ops.conv.problem import Conv
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.launch import Bind, Setting


def default(problem: Conv, device: object, setting: Setting) -> Bind:
    """aten::convolution and aten::convolution_backward; nhwc is channels_last. They allocate their result, which is
    copied to the operand only where it lies elsewhere: into the operand as `out` they cannot write."""
    torch = torch_library.load()
    torch.set_num_threads(setting.threads)
    torch.set_grad_enabled(False)
    aten = torch.ops.aten
    how = ([problem.stride] * 2, [problem.pad_top, problem.pad_left], [problem.dilation] * 2, False, [0, 0])

    def bind(buffers: Sequence[Any]) -> Launch:
        first, second, result = (torch_library.tensor(torch, problem.plain(x)) for x in buffers)
        return Launch(_call(problem, aten, how, (first, second, result)))

    return bind


def _call(problem: Conv, aten: Any, how: Any, tensors: tuple[Any, Any, Any]) -> Callable[[], object]:
    first, second, result = tensors
    if problem.direction == "forward":
        return lambda: aten.convolution.out(first, second, None, *how, problem.groups, out=result)
    if problem.direction == "dgrad":
        # The image's values are not read, only its shape and strides.
        return lambda: result.copy_(
            aten.convolution_backward(first, result, second, None, *how, problem.groups, [True, False, False])[0]
        )
    return lambda: result.copy_(
        aten.convolution_backward(second, first, result, None, *how, problem.groups, [False, True, False])[1]
    )


def symmetric(problem: Conv) -> str | None:
    """Why its padding argument cannot say this one."""
    if (problem.pad_top, problem.pad_left) != (problem.pad_bottom, problem.pad_right):
        return "its padding is the same on both sides: --pad-bottom as --pad-top, --pad-right as --pad-left"
    return None if problem.layout != "nchw16c" else "it has no such layout: --layout nchw or nhwc"


TORCH: dict[str, Any] = {"missing": torch_library.missing, "kernel": torch_library.kernel, "python": True}
ROWS: tuple[Variant[Conv], ...] = (
    Variant(
        "torch",
        "cpu",
        "torch",
        default,
        accepts=symmetric,
        work=Conv.direct_work,
        roles=("default", "sums", "layouts"),
        **TORCH,
    ),
)
