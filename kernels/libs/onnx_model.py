"""ONNX models of a few nodes, serialized by hand: protobuf's wire format, without the onnx package."""

from __future__ import annotations

from collections.abc import Sequence

IR, OPSET = 8, 13  # read by all releases of the last years
FLOAT, INT64, INT, INTS = 1, 7, 2, 7  # TensorProto's types; AttributeProto's types
VARINT, BYTES = 0, 2  # protobuf wire types


def model(
    nodes: Sequence[bytes], constants: Sequence[bytes], inputs: Sequence[bytes], outputs: Sequence[bytes]
) -> bytes:
    """Return a serialized model of nodes in order."""
    lists = ((1, nodes), (5, constants), (11, inputs), (12, outputs))
    graph = b"".join(field(number, each) for number, several in lists for each in several) + field(2, b"kernelgap")
    return field(1, IR) + field(7, graph) + field(8, field(2, OPSET))


def field(number: int, value: int | bytes) -> bytes:
    """Return a protobuf field."""
    if isinstance(value, int):
        return _varint(number << 3 | VARINT) + _varint(value)
    return _varint(number << 3 | BYTES) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    """Return a protobuf varint: seven bits per byte, the lowest first."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def node(kind: str, inputs: str, outputs: str, **attributes: int | Sequence[int]) -> bytes:
    """Return a node; `inputs`, `outputs`: names, separated by blanks."""
    names = [field(1, name.encode()) for name in inputs.split()]
    names += [field(2, name.encode()) for name in outputs.split()]
    return b"".join(names) + field(4, kind.encode()) + b"".join(field(5, _attribute(*x)) for x in attributes.items())


def _attribute(name: str, value: int | Sequence[int]) -> bytes:
    if isinstance(value, int):
        return field(1, name.encode()) + field(3, value) + field(20, INT)
    return field(1, name.encode()) + b"".join(field(8, each) for each in value) + field(20, INTS)


def constant(name: str, shape: Sequence[int], raw: bytes, kind: int = FLOAT) -> bytes:
    """Return a constant tensor of the graph."""
    return b"".join(field(1, size) for size in shape) + field(2, kind) + field(8, name.encode()) + field(9, raw)


def value(name: str, shape: Sequence[int]) -> bytes:
    """Return the description of an input or output of floats."""
    sizes = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, name.encode()) + field(2, field(1, field(1, FLOAT) + field(2, sizes)))
