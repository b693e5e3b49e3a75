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
LISTED, INDEX = 4, 8  # bytes of an element of a list of tensors, whose type is not told, and of an index


@dataclass(frozen=True)
class Call:
    """One call of an operation, as a profiler with shapes recorded it. For each input: `shapes`, a list of int, of a
    list of tensors a list of them, [] of a scalar; `types`, "float", "c10::BFloat16", "Scalar", "TensorList", "" and so
    on; `arguments`, the value of a scalar or a list of them; `strides`, like shapes, in elements, if recorded."""

    name: str
    shapes: Sequence[Any]
    types: Sequence[str]
    arguments: Sequence[Any]
    strides: Sequence[Any] = ()


@dataclass(frozen=True)
class Amount:
    """FLOP of products and convolutions, nominal, 0 of passes; and bytes read and written at least."""

    flops: float
    bytes: float


def base(call: Call) -> str:
    return stem(call.name).removeprefix("aten::")


def only(call: Call, *names: str) -> str:
    """One of these, else its work is not known."""
    if base(call) not in names:
        raise LookupError(call.name)
    return base(call)


def count(shape: Iterable[int]) -> int:
    return math.prod(shape)


def tensor_bytes(call: Call, i: int = 0) -> int:
    """Bytes of a tensor, or of one like it."""
    return SIZES[call.types[i]] * count(call.shapes[i])


def read(call: Call, i: int) -> int:
    """Bytes of an input read once: of an expanded axis, whose stride is 0, one place; 0 of what is no tensor."""
    shape, strides = call.shapes[i], call.strides[i] if call.strides else ()
    if call.types[i] == "TensorList":
        return LISTED * sum(count(x) for x in shape)
    steps = strides if len(strides) == len(shape) else [1] * len(shape)
    return SIZES.get(call.types[i], 0) * count(n for n, step in zip(shape, steps, strict=True) if step)


def inputs(call: Call) -> int:
    return sum(read(call, i) for i in range(len(call.shapes)))


def windows(size: int, taps: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1
