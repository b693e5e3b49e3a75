"""A model of one convolution in the format of ONNX: protocol buffers, of which it takes few fields.

Numbers of fields are those of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
"""

from __future__ import annotations

from collections.abc import Sequence

from kernels.ops.conv.problem import Conv

IR, OPSET = 8, 13  # what any release of the last years reads
FLOAT, INT, INTS = 1, 2, 7  # TensorProto.FLOAT; AttributeProto's types
VARINT, BYTES = 0, 2  # how a field lies


def model(problem: Conv, weights: bytes | None) -> bytes:
    """y = Conv(x, w): the filter a constant of the model where its weights are given, else an input."""
    filters = (problem.k, problem.c // problem.groups, problem.r, problem.s)
    down, across = problem.lines
    shapes = {
        "x": (problem.n, problem.c, problem.h, problem.w),
        "w": filters,
        "y": (problem.n, problem.k, down.outputs, across.outputs),
    }
    constant = _field(5, _tensor("w", filters, weights)) if weights is not None else b""
    inputs = b"".join(_field(11, _value(name, shapes[name])) for name in ("x", "w") if name == "x" or not constant)
    graph = _field(1, _node(problem)) + _field(2, b"conv") + constant + inputs + _field(12, _value("y", shapes["y"]))
    return _field(1, IR) + _field(7, graph) + _field(8, _field(2, OPSET))


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
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
