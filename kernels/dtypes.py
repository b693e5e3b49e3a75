"""Element types: their bytes, their unit roundoff, and their representation in memory.

TF32 operands are stored as float32, whose last bits a product drops. NumPy has no bfloat16: a bfloat16 array is a
uint16 array of the bits. Products of int8 are summed exactly in int32. Labels and other indices are int32 or int64.
The least value of int32 and of int64 stands for NaN."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

from kernels.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"

BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "int8": 1, "int32": 4, "int64": 8}
UNIT_ROUNDOFF = {  # for int8, that of the float64 arithmetic that checks its exact sums
    "fp64": 2.0**-53,
    "fp32": 2.0**-24,
    "tf32": 2.0**-11,
    "fp16": 2.0**-11,
    "bf16": 2.0**-8,
    "int8": 2.0**-45,
}
LEAST_POSITIVE = {"fp16": 2.0**-24}  # of types whose data reach the subnormal numbers, where errors are absolute
STORED = {  # NumPy types in memory
    "fp64": "f8",
    "fp32": "f4",
    "tf32": "f4",
    "bf16": "u2",
    "fp16": "f2",
    "int8": "i1",
    "int32": "i4",
    "int64": "i8",
}
LEAST = {"int32": -(2.0**31), "int64": -(2.0**63)}
SPREAD = 32.0  # standard deviation of normal numbers that are rounded to integers
DATA = ("normal", "uniform", "integers", "zeros")  # distributions of operands
MAGNITUDES = "magnitudes"  # absolute normal numbers, for nonnegative operands under "normal"
NOT_A_NUMBER = 0x7FC0  # bfloat16's


@functools.cache
def stored_as(kind: Any) -> str:
    """Return the element type that is stored as NumPy type `kind`; float32 gives "fp32", never "tf32"."""
    return {STORED[name]: name for name in ("fp64", "fp32", "fp16", "bf16", "int8", "int32", "int64")}[
        np.dtype(kind).str[1:]
    ]


def encode(x: Array, dtype: str) -> Array:
    """Return numbers as stored in memory, rounded to nearest, ties to even; int8 is clipped to ±127."""
    if dtype == "int8":
        return np.asarray(np.clip(np.rint(np.nan_to_num(x, nan=0)), -127, 127), STORED[dtype])
    if dtype in LEAST:
        integers = x if x.dtype.kind == "i" else np.rint(np.nan_to_num(x, nan=LEAST[dtype]))
        return np.asarray(integers, STORED[dtype])
    if dtype != "bf16":
        with np.errstate(over="ignore"):  # a value beyond half precision becomes infinite, as on a device
            return np.asarray(x, STORED[dtype])
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)
    rounded[np.isnan(x)] = NOT_A_NUMBER  # rounding up would carry out of its bits
    return rounded


def decode(x: Array) -> Array:
    """Return stored numbers as float32, or int32 and int64 as float64; uint16 holds bfloat16 bits."""
    if x.dtype in (np.int32, np.int64):
        return np.where(x == np.iinfo(x.dtype).min, np.nan, x.astype(np.float64))
    if x.dtype == np.uint16:
        widened: Array = (x.astype(np.uint32) << 16).view(np.float32)
        return widened
    return x.astype(np.float32)


def drawn(seed: Any, count: int, dtype: str, data: str = "normal") -> Array:
    """Return `count` random numbers as stored in memory.

    `data`: "normal", or its "magnitudes"; "uniform" in [0, 1); "integers" from −8 to 8; "zeros". `seed`: an integer
    or a generator."""
    rng = np.random.default_rng(seed)
    if data == "zeros":
        return np.zeros(count, STORED[dtype])
    if data == "integers":
        return encode(rng.integers(-8, 8, count, endpoint=True).astype(np.float32), dtype)
    some = rng.random(count, np.float32) if data == "uniform" else rng.standard_normal(count, np.float32)
    if data == MAGNITUDES:
        np.abs(some, out=some)
    return encode(some * spread(dtype), dtype)


def spread(dtype: str) -> Any:
    """Return the factor on standard normal numbers before rounding: 32 for int8 and int32, else 1."""
    return np.float32(SPREAD if dtype in ("int8", "int32") else 1.0)


def rounded(x: Array, dtype: str) -> Array:
    """Return `x` rounded to the nearest values of `dtype`, as float32; `x` itself if stored as float32."""
    return x if STORED[dtype] == "f4" else decode(encode(x, dtype))
