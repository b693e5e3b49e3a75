"""A call of a PyTorch operation, as the profiler recorded it with shapes, and the bytes that it moves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from macro.explaining.kinds import stem

BYTES = {
    1: "bool/signed char/unsigned char/c10::qint8/c10::quint8/c10::Float8_e4m3fn/c10::Float8_e5m2",
    2: "short int/c10::Half/c10::BFloat16",
    4: "int/float",
    8: "long int/double/c10::complex<float>",
    16: "c10::complex<double>",
}
SIZES = {name: size for size, names in BYTES.items() for name in names.split("/")}
LIST = "TensorList"  # type of an input that is a list of tensors
LISTED, INDEX = 4, 8  # bytes of an element in a list of tensors (type not recorded, float32 assumed), and of an index


@dataclass(frozen=True)
class Call:
    """One call of an operation, as a profiler with shapes recorded it; fields have an item for each input."""

    name: str
    shapes: Sequence[Any]  # list of int; for a list of tensors, a list of their shapes; [] for a scalar
    types: Sequence[str]  # "float", "c10::BFloat16", "Scalar", "TensorList", "" and so on
    arguments: Sequence[Any]  # values of scalars and of lists of scalars
    strides: Sequence[Any] = ()  # like shapes, in elements; empty if not recorded


@dataclass(frozen=True)
class Amount:
    """Nominal work of a call: FLOP (0 for memory passes), and the least bytes read and written."""

    flops: float
    bytes: float


def base(call: Call) -> str:
    return stem(call.name).removeprefix("aten::")


def only(call: Call, *names: str) -> str:
    """Return an operation's base name. Raises LookupError (work unknown) if it is not among `names`."""
    if base(call) not in names:
        raise LookupError(call.name)
    return base(call)


def count(shape: Iterable[int]) -> int:
    return math.prod(shape)


def tensor_bytes(call: Call, i: int = 0) -> int:
    """Return the bytes of input tensor `i`."""
    return SIZES[call.types[i]] * count(call.shapes[i])


def read(call: Call, i: int) -> int:
    """Return the bytes to read input `i` once, 0 if it is no tensor; axes of stride 0 count as length 1."""
    shape, strides = call.shapes[i], call.strides[i] if call.strides else ()
    if call.types[i] == LIST:
        return LISTED * sum(count(x) for x in shape)
    steps = strides if len(strides) == len(shape) else [1] * len(shape)
    return SIZES.get(call.types[i], 0) * count(n for n, step in zip(shape, steps, strict=True) if step)


def inputs(call: Call) -> int:
    return sum(read(call, i) for i in range(len(call.shapes)))


def windows(size: int, taps: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1


POOLS = {"max_pool2d_with_indices", "max_pool3d_with_indices", "mkldnn_max_pool2d", "mkldnn_max_pool3d"}
POOLS |= {"avg_pool2d", "avg_pool3d"}
NORMS = {"native_batch_norm", "native_layer_norm", "native_group_norm", "cudnn_batch_norm"}
NORMS |= {"_native_batch_norm_legit", "_native_batch_norm_legit_no_training"}
TRUTHS = {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not"}  # bool results
SCANS = {"cumsum", "cumprod", "logcumsumexp", "_logcumsumexp"}  # the result is as long as the input
MOVES = {"cat", "flip", "roll", "sort", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle"}
# Index of the input whose number of elements is the number moved.
MOVED = {"gather": 2, "scatter": 2, "scatter_add": 2, "index_put": 2, "_index_put_impl": 2, "index_add": 3}
READS = {"gather", "index_select"}  # no full copy of the input comes before the moved elements
PARAMETERS = {"_fused_adam": 7, "_fused_adamw": 7, "_fused_adagrad": 5, "_fused_sgd": 3}  # passes over the parameters
STATE = {"_fused_adam": 4, "_fused_adamw": 4, "_fused_sgd": 2}  # index of an optional state list, read and written


def _normalize(call: Call) -> int:
    """Return the bytes of a normalization; with known statistics (inference) its input is read only once."""
    name = only(call, *NORMS)
    if "backward" in call.name:
        return 4 * tensor_bytes(call)
    known = "no_training" in name or (name == "native_batch_norm" and call.arguments[5] is False)
    return tensor_bytes(call) * (2 if known else 3)


def _pool(call: Call) -> int:
    """Return the bytes of a pooling or resampling: input, result, and indices if it has them."""
    if "backward" in call.name:
        resized = SIZES[call.types[0]] * count(call.arguments[2]) if "upsample" in call.name else 0
        return inputs(call) + resized
    name, x, places = base(call), call.shapes[0], call.arguments[1]
    if name in POOLS:
        places = [_along(call, *axis) for axis in enumerate(x[-len(places) :])]
    elif not name.removeprefix("_").startswith(("adaptive", "upsample")):
        raise LookupError(name)
    indices = INDEX if "indices" in name or "adaptive_max" in name else 0
    result = count(x[: -len(places)]) * count(places)
    return tensor_bytes(call) + result * (SIZES[call.types[0]] + indices)


def _along(call: Call, axis: int, size: int) -> int:
    """Return the number of windows along an axis; with ceil_mode the last window may reach over the edge."""
    dilations = [4] if "max" in call.name else []
    taps, stride, padding, *dilation = (
        call.arguments[i][axis] for i in (1, 2 if call.arguments[2] else 1, 3, *dilations)
    )
    up = bool(call.arguments[4 + len(dilations)])
    places = windows(size + up * (stride - 1), taps, stride, padding, *(dilation or [1]))
    return places - int(up and (places - 1) * stride >= size + padding)


def _softmax(call: Call) -> int:
    name, backward = base(call), "backward" in call.name
    if name in ("_softmax", "_log_softmax", "_masked_softmax"):
        return tensor_bytes(call) * (3 if backward else 2)
    if name.startswith("nll_loss"):  # touches one element of each row; the gradient is cleared first
        rows = count(call.shapes[1 + backward])
        return INDEX * rows + (tensor_bytes(call, 1) if backward else rows * SIZES[call.types[0]])
    return inputs(call) + (tensor_bytes(call, 1) if backward else 0)


def _embed(call: Call) -> int:
    """Return the bytes of an embedding: rows read and written; backward also clears the table's gradient."""
    if base(call) == "embedding_dense_backward":
        return 2 * tensor_bytes(call) + SIZES[call.types[0]] * count((call.arguments[2], call.shapes[0][-1]))
    only(call, "embedding")
    return 2 * SIZES[call.types[0]] * count((call.shapes[0][-1], *call.shapes[1]))


def _compute(call: Call) -> int:
    """Return the bytes of an element-wise call: inputs, and the broadcast result in the widest type."""
    name = base(call)
    if call.types[0] == LIST or call.name.endswith("_"):
        return inputs(call) + read(call, 0)
    tensors = [(shape, SIZES[of]) for shape, of in zip(call.shapes, call.types, strict=True) if of in SIZES]
    axes = max(len(shape) for shape, _ in tensors)
    result = count(map(max, zip(*([1] * (axes - len(shape)) + list(shape) for shape, _ in tensors), strict=True)))
    size = 1 if name in TRUTHS else max(size for shape, size in tensors if len(shape) == axes)
    return inputs(call) + result * size // (2 if name == "glu" and "backward" not in call.name else 1)


def _copy(call: Call) -> int:
    """Return the bytes of a copy: index, moved elements twice, and first a full copy if not in place."""
    name = base(call)
    if name in ("copy_", "_foreach_copy"):
        return inputs(call)
    if name in MOVES:
        return 2 * inputs(call)
    index = read(call, 2) if call.types[2] in ("int", "long int") else 0
    moved = count(call.shapes[2 if name == "index_select" else MOVED[name]])
    if name == "index_select":  # whole rows
        moved = moved * count(call.shapes[0]) // call.shapes[0][call.arguments[1]]
    before = 2 * tensor_bytes(call) if name not in READS and not call.name.endswith("_") else 0
    return index + 2 * moved * SIZES[call.types[0]] + before


def _update(call: Call) -> int:
    """Return the bytes of a fused optimizer: parameters and state read and written, gradients read."""
    name = base(call)
    further = 2 if name in STATE and call.shapes[STATE[name]] else 0
    return read(call, 0) * (PARAMETERS[name] + further)


def _once(call: Call) -> int:
    """Return the bytes of one pass over the first input. Raises LookupError if it is no tensor."""
    if call.types[0] not in SIZES and call.types[0] != LIST:
        raise LookupError(call.name)
    return read(call, 0)


PASSES: dict[str | None, Callable[[Call], float]] = {
    "normalization": _normalize,
    "pooling": _pool,
    "embedding": _embed,
    "element-wise": _compute,
    "reduction": lambda call: inputs(call) * (2 if base(call) in SCANS else 1),
    "softmax and loss": _softmax,
    "optimizer": _update,
    "copy": _copy,
    "indexing": _copy,
    "sorting": _copy,
    "clear": _once,
    "layout reorder": lambda call: 2 * _once(call),
    "packing": lambda call: 2 * _once(call),
    "random numbers": _once,
    "cast": lambda call: _once(call) + count(call.shapes[0]) * (4 if base(call) == "dequantize" else 1),
}
