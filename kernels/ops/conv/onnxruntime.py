"""ONNX Runtime's forward convolution: a model of one node, whose constant filter is packed at load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs import onnxruntime
from kernels.libs.onnxruntime import ONNXRUNTIME
from kernels.ops.conv import cached_filter
from kernels.ops.conv.problem import Conv
from kernels.problem import Array
from kernels.setting import Setting
from kernels.variant import Variant, row

IR, OPSET = 8, 13  # read by all releases of the last years
FLOAT, INT, INTS = 1, 2, 7  # TensorProto.FLOAT; AttributeProto's types
VARINT, BYTES = 0, 2  # protobuf wire types


def model(problem: Conv, weights: bytes) -> bytes:
    """Return the serialized ONNX model y = Conv(x, w) with the constant w."""
    filters = (problem.k, problem.c // problem.groups, problem.r, problem.s)
    down, across = problem.lines
    x = _value("x", (problem.n, problem.c, problem.h, problem.w))
    y = _value("y", (problem.n, problem.k, down.outputs, across.outputs))
    graph = _field(1, _node(problem)) + _field(2, b"conv") + _field(5, _tensor("w", filters, weights))
    graph += _field(11, x) + _field(12, y)
    return _field(1, IR) + _field(7, graph) + _field(8, _field(2, OPSET))


def _varint(value: int) -> bytes:
    """Return a protobuf varint: seven bits per byte, the lowest first."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3 | VARINT) + _varint(value)
    return _varint(number << 3 | BYTES) + _varint(len(value)) + value


def _node(problem: Conv) -> bytes:
    names = _field(1, b"x") + _field(1, b"w") + _field(2, b"y") + _field(4, b"Conv")
    pads = (problem.pad_top, problem.pad_left, problem.pad_bottom, problem.pad_right)
    lists = {
        "kernel_shape": (problem.r, problem.s),
        "strides": (problem.stride,) * 2,
        "dilations": (problem.dilation,) * 2,
        "pads": pads,
    }
    attributes = [_attribute(name, values) for name, values in lists.items()]
    group = _field(1, b"group") + _field(3, problem.groups) + _field(20, INT)
    return names + b"".join(_field(5, each) for each in (*attributes, group))


def _attribute(name: str, values: Sequence[int]) -> bytes:
    return _field(1, name.encode()) + b"".join(_field(8, value) for value in values) + _field(20, INTS)


def _tensor(name: str, shape: Sequence[int], raw: bytes) -> bytes:
    return b"".join(_field(1, size) for size in shape) + _field(2, FLOAT) + _field(8, name.encode()) + _field(9, raw)


def _value(name: str, shape: Sequence[int]) -> bytes:
    sizes = b"".join(_field(1, _field(1, size)) for size in shape)
    return _field(1, name.encode()) + _field(2, _field(1, _field(1, FLOAT) + _field(2, sizes)))


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
                current[:] = held.derived, _bound(held.derived, x, y)
            current[0].run_with_iobinding(current[1])

        return Launch(cached_filter.keeping(w, make, [run], held), kernel=(kernel, None))

    return bind


def _bound(session: Any, x: Array, y: Array) -> Any:
    """Return a binding of the session to the operands in place."""
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    return binding


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
