"""ONNX Runtime's forward convolution: a model of one node, whose constant filter is packed at load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernels.launch import Bind, Launch
from kernels.libs import onnx_model, onnxruntime
from kernels.libs.onnxruntime import ONNXRUNTIME
from kernels.ops.conv import cached_filter
from kernels.ops.conv.problem import Conv
from kernels.problem import Array
from kernels.setting import Setting
from kernels.variant import Variant, row


def model(problem: Conv, weights: bytes) -> bytes:
    """Return the serialized ONNX model y = Conv(x, w) with the constant w."""
    filters = (problem.k, problem.c // problem.groups, problem.r, problem.s)
    down, across = problem.lines
    x = onnx_model.value("x", (problem.n, problem.c, problem.h, problem.w))
    y = onnx_model.value("y", (problem.n, problem.k, down.outputs, across.outputs))
    lists = {
        "kernel_shape": (problem.r, problem.s),
        "strides": (problem.stride,) * 2,
        "dilations": (problem.dilation,) * 2,
        "pads": (problem.pad_top, problem.pad_left, problem.pad_bottom, problem.pad_right),
    }
    node = onnx_model.node("Conv", "x w", "y", **lists, group=problem.groups)
    return onnx_model.model([node], [onnx_model.constant("w", filters, weights)], [x], [y])


def prepare(problem: Conv, device: Any, setting: Setting) -> Bind:
    """Prepare a model whose filter is a constant."""
    cached_filter.refuse_cold(setting)
    zeros = bytes(problem.operands()[1].nbytes)
    kernel = _named(model(problem, zeros))
    held = cached_filter.Held()

    def bind(buffers: Sequence[Array]) -> Launch:
        x, w, y = buffers
        current: list[Any] = [None, None]  # the session bound to these operands, and its binding

        def make() -> object:
            return onnxruntime.session(model(problem, w.tobytes()), setting.threads)

        def run() -> None:
            if current[0] is not held.derived:
                current[:] = held.derived, onnxruntime.bound(held.derived, x, y)
            current[0].run_with_iobinding(current[1])

        return Launch(cached_filter.keeping(w, make, [run], held), kernel=(kernel, None))

    return bind


def _named(model: bytes) -> str:
    """Return a name of the kernel that depends on the operations of the optimized model."""
    text = onnxruntime.optimized(model)
    copies = [name for name in ("ReorderInput", "ReorderOutput") if name.encode() in text]
    how = ", ".join(["channels in blocks (NCHWc)", *copies]) if copies else "Conv of plain images"
    return f"onnxruntime {onnxruntime.load().__version__}, {how}"


def accepts(problem: Conv) -> str | None:
    """Return why ONNX Runtime cannot do a problem, or None if it can."""
    if problem.direction != "forward":
        return "supports only the forward pass: --direction forward"
    if problem.layout != "nchw":
        return "layout not supported: --layout nchw"
    return None


ROWS: tuple[Variant[Conv], ...] = (
    row(ONNXRUNTIME, "onnxruntime", prepare, accepts=accepts, work=Conv.direct_work, constant=("w",)),
)
