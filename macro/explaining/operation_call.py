"""One call of an operation, as a profiler with shapes recorded it, and the bytes of its tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from macro.explaining.operations import stem

BYTES = {
    1: "bool/signed char/unsigned char/c10::qint8/c10::quint8/c10::Float8_e4m3fn/c10::Float8_e5m2",
    2: "short int/c10::Half/c10::BFloat16",
    4: "int/float",
    8: "long int/double/c10::complex<float>",
    16: "c10::complex<double>",
}
SIZES = {name: size for size, names in BYTES.items() for name in names.split("/")}
LISTED, INDEX = 4, 8  # bytes of an element of a list of tensors, of unknown type, and of an index


@dataclass(frozen=True)
class Call:
    """One call of an operation, as a profiler with shapes recorded it; fields have an item for each input."""

    name: str
    shapes: Sequence[Any]  # list of int; for a list of tensors a list of those; [] for a scalar
    types: Sequence[str]  # "float", "c10::BFloat16", "Scalar", "TensorList", "" and so on
    arguments: Sequence[Any]  # the value of a scalar, or a list of them
    strides: Sequence[Any] = ()  # like shapes, in elements, if recorded


@dataclass(frozen=True)
class Amount:
    """Nominal FLOP of products and convolutions, 0 of passes, and the least bytes read and written."""

    flops: float
    bytes: float


def base(call: Call) -> str:
    return stem(call.name).removeprefix("aten::")


def only(call: Call, *names: str) -> str:
    """Return an operation's base name if it is among `names`.
    Raises LookupError otherwise, since its work is unknown."""
    if base(call) not in names:
        raise LookupError(call.name)
    return base(call)


def count(shape: Iterable[int]) -> int:
    return math.prod(shape)


def tensor_bytes(call: Call, i: int = 0) -> int:
    """Bytes of an input tensor, or of another like it."""
    return SIZES[call.types[i]] * count(call.shapes[i])


def read(call: Call, i: int) -> int:
    """Bytes of an input read once, 0 if it is no tensor; an axis with stride 0 counts as one element."""
    shape, strides = call.shapes[i], call.strides[i] if call.strides else ()
    if call.types[i] == "TensorList":
        return LISTED * sum(count(x) for x in shape)
    steps = strides if len(strides) == len(shape) else [1] * len(shape)
    return SIZES.get(call.types[i], 0) * count(n for n, step in zip(shape, steps, strict=True) if step)


def inputs(call: Call) -> int:
    return sum(read(call, i) for i in range(len(call.shapes)))


def windows(size: int, taps: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1
