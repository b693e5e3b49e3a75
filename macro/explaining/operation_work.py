"""How much work one call of an operation is, by its shapes, and which benchmark of micro measures it alone.

An amount is of a call with all that is called inside it: of nested calls that have one, count the outermost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from macro.explaining.operations import kind, stem

BYTES = {
    1: "bool/signed char/unsigned char/c10::qint8/c10::quint8/c10::Float8_e4m3fn/c10::Float8_e5m2",
    2: "short int/c10::Half/c10::BFloat16",
    4: "int/float",
    8: "long int/double/c10::complex<float>",
    16: "c10::complex<double>",
}
SIZES = {name: size for size, names in BYTES.items() for name in names.split("/")}
LISTED, INDEX = 4, 8  # bytes of an element of a list of tensors, whose type is not told, and of an index
MICRO: dict[str, dict[str, str]] = {"float": {}, "c10::BFloat16": {"dtype": "bf16"}, "c10::Half": {"dtype": "fp16"}}
# Which inputs are the two factors; of a linear layer the second is N×K, and may be packed.
FACTORS = {"mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "_scaled_mm": (0, 1), "addmm": (1, 2), "addmv": (1, 2)}
FACTORS |= {"baddbmm": (1, 2), "addbmm": (1, 2), "_addmm_activation": (1, 2)}
LINEAR = {"mkldnn_linear": (0, 1), "_weight_int8pack_mm": (0, 1), "mkldnn::_linear_pointwise": (0, 1)}
LINEAR |= {"mkl::_mkl_linear": (0, 2), "onednn::qlinear_pointwise": (0, 3)}
FACTORS |= LINEAR
# Which arguments are stride, padding, dilation and groups; one that is not among them is 1.
BACKWARD = "convolution_backward"
CONVOLUTIONS = {
    BACKWARD: (4, 5, 6, 9),
    "convolution_overrideable": (3, 4, 5, 8),
    "mkldnn_convolution": (4, 3, 5, 6),
    "cudnn_convolution": (3, 2, 4, 5),
    "_slow_conv2d_forward": (4, 5, -1, -1),
    "slow_conv_dilated2d": (4, 5, 6, -1),
    "mkldnn::_convolution_pointwise": (4, 3, 5, 6),
}
TRANSPOSED = {BACKWARD: 7, "convolution_overrideable": 6}
POOLS = {"max_pool2d_with_indices", "max_pool3d_with_indices", "mkldnn_max_pool2d", "mkldnn_max_pool3d"}
POOLS |= {"avg_pool2d", "avg_pool3d"}
NORMS = {"native_batch_norm", "native_layer_norm", "native_group_norm", "cudnn_batch_norm"}
NORMS |= {"_native_batch_norm_legit", "_native_batch_norm_legit_no_training"}
TRUTHS = {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not"}  # a byte each
SCANS = {"cumsum", "cumprod", "logcumsumexp", "_logcumsumexp"}  # with a result as long as the input
MOVES = {"cat", "flip", "roll", "sort", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle"}
# The input with as many elements as are moved one by one.
MOVED = {"gather": 2, "scatter": 2, "scatter_add": 2, "index_put": 2, "_index_put_impl": 2, "index_add": 3}
READS = {"gather", "index_select"}  # nothing but what is moved
PARAMETERS = {"_fused_adam": 7, "_fused_adamw": 7, "_fused_adagrad": 5, "_fused_sgd": 3}  # passes
STATE = {"_fused_adam": 4, "_fused_adamw": 4, "_fused_sgd": 2}  # a list that, if there, is read and written too


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


def amount(call: Call) -> Amount | None:
    """The work of a call; None where it is not known."""
    of = kind(call.name)
    if of == "dispatch":
        return Amount(0.0, 0.0)
    try:
        if of in PRODUCTS:
            return Amount(*map(float, PRODUCTS[of](_plain(call))))
        return Amount(0.0, float(PASSES[of](call))) if of in PASSES and call.shapes else None
    except (LookupError, TypeError, ValueError, ArithmeticError):  # not in the tables, or recorded without shapes
        return None


def alone(call: Call) -> tuple[str, dict[str, Any]] | None:
    """The benchmark of micro, and its options, that measures this call by itself; None where there is none. Of the two
    convolutions of a backward pass, which have the same work, the gradient of the image if it is wanted."""
    try:
        if kind(call.name) == "convolution":
            return _conv_options(_plain(call))
        return _gemm_options(_plain(call)) if kind(call.name) == "gemm" else None
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return None


def _base(call: Call) -> str:
    return stem(call.name).removeprefix("aten::")


def _only(call: Call, *names: str) -> str:
    """One of these, else its work is not known."""
    if _base(call) not in names:
        raise LookupError(call.name)
    return _base(call)


def _plain(call: Call) -> Call:
    """Without the second operand that some of oneDNN's products add; it lies before the weights."""
    if not call.name.startswith("mkldnn::_") or len(call.shapes[2]) < 2:
        return call
    return Call(call.name, *([*x[:1], *x[2:]] for x in (call.shapes, call.types, call.arguments, call.strides)))


def _count(shape: Iterable[int]) -> int:
    return math.prod(shape)


def _whole(call: Call, i: int = 0) -> int:
    """Bytes of a tensor, or of one like it."""
    return SIZES[call.types[i]] * _count(call.shapes[i])


def _input(call: Call, i: int) -> int:
    """Bytes of an input read once: of an expanded axis, whose stride is 0, one place; 0 of what is no tensor."""
    shape, strides = call.shapes[i], call.strides[i] if call.strides else ()
    if call.types[i] == "TensorList":
        return LISTED * sum(_count(one) for one in shape)
    steps = strides if len(strides) == len(shape) else [1] * len(shape)
    return SIZES.get(call.types[i], 0) * _count(n for n, step in zip(shape, steps, strict=True) if step)


def _inputs(call: Call) -> int:
    return sum(_input(call, i) for i in range(len(call.shapes)))


def _product(call: Call) -> tuple[int, int, int, int]:
    """Batch, m, n, k."""
    a, b = (call.shapes[i] for i in FACTORS[_base(call)])
    if _base(call) in LINEAR:
        return 1, _count(a[:-1]), _count(b) // a[-1], a[-1]
    return _count(a[:-2]), a[-2], b[-1] if len(b) > 1 else 1, a[-1]


def _gemm(call: Call) -> tuple[int, int]:
    (batch, m, n, k), (a, b) = _product(call), FACTORS[_base(call)]
    result = m * n * (1 if _base(call) == "addbmm" else batch)
    return 2 * batch * m * n * k, _input(call, a) + _input(call, b) + result * SIZES[call.types[a]]


def _gemm_options(call: Call) -> tuple[str, dict[str, Any]] | None:
    (_, m, n, k), (a, b) = _product(call), FACTORS[_base(call)]
    if min(m, n, k) < 1 or len(call.shapes[b]) > 2:
        return None
    options = {"m": m, "n": n, "k": k, **MICRO[call.types[a]]}
    if _base(call) in LINEAR:
        options["trans"] = "nt"
    elif call.strides:
        options["trans"] = "".join(_stored(call.shapes[i], call.strides[i]) for i in (a, b))
    return "gemm", options


def _stored(shape: Sequence[int], strides: Sequence[int]) -> str:
    """In micro's words: t if the columns lie one after the other in memory, else n."""
    by_rows = strides[-1] == 1 and (len(shape) < 2 or shape[0] == 1 or strides[0] >= shape[1])
    return "t" if strides[0] == 1 and not by_rows else "n"


def _each(call: Call, i: int, axes: int) -> list[int]:
    """A setting of each axis: a number may be for all, and one that is not told is 1."""
    value = call.arguments[i] if i >= 0 else 1
    values = list(value) if isinstance(value, Sequence) else [value]
    return values if len(values) == axes else values * axes


@dataclass(frozen=True)
class _Convolution:
    """Shapes N×C×…, K×C/groups×…, N×K×…, and where the first two are among the inputs; the settings of each axis."""

    inputs: tuple[int, int]
    x: Sequence[int]
    w: Sequence[int]
    y: Sequence[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int


def _convolution(call: Call) -> _Convolution:
    name, settings = _base(call), CONVOLUTIONS[_base(call)]
    if name in TRANSPOSED and call.arguments[TRANSPOSED[name]]:
        raise LookupError(name)
    x, w = (1, 2) if name == BACKWARD else (0, 1)
    image, filters = call.shapes[x], call.shapes[w]
    stride, padding, dilation = (_each(call, i, len(image) - 2) for i in settings[:3])
    lines = zip(image[2:], filters[2:], stride, padding, dilation, strict=True)
    y = call.shapes[0] if name == BACKWARD else [image[0], filters[0], *(_places(*line) for line in lines)]
    return _Convolution((x, w), image, filters, y, stride, padding, dilation, *_each(call, settings[3], 1))


def _places(size: int, taps: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1


def _convolve(call: Call) -> tuple[int, int]:
    of = _convolution(call)
    times = sum(call.arguments[10][:2]) if _base(call) == BACKWARD else 1
    flops = 2 * of.x[0] * _count(of.y[2:]) * _count(of.w)
    moved = sum(_input(call, i) for i in of.inputs) + SIZES[call.types[of.inputs[0]]] * _count(of.y)
    return times * flops, times * moved


def _conv_options(call: Call) -> tuple[str, dict[str, Any]] | None:
    """Micro's has two axes, with one stride and one dilation for both; of a line the other axis is 1."""
    of = _convolution(call)
    wanted, line = [*call.arguments[10][:2]] if _base(call) == BACKWARD else [], len(of.x) == 3
    (h, w), (r, s), places = ([1] * line + list(shape[2:]) for shape in (of.x, of.w, of.y))
    up, left = pads = [0] * line + of.padding
    (stride,) = {x for x, out in zip(of.stride, of.y[2:], strict=True) if out > 1} or {max(of.stride)}
    (dilation,) = {x for x, taps in zip(of.dilation, of.w[2:], strict=True) if taps > 1} or {1}
    lines = zip((h, w), (r, s), pads, places, strict=True)
    same = all(_places(size, taps, stride, pad, dilation) == out for size, taps, pad, out in lines)
    if call.types[of.inputs[0]] != "float" or not same or (wanted and not any(wanted)):
        return None
    options: dict[str, Any] = {
        "n": of.x[0],
        "c": of.x[1],
        "h": h,
        "w": w,
        "k": of.w[0],
        "r": r,
        "s": s,
        "stride": stride,
    }
    options |= {"pad": up} if up == left else {"pad_top": up, "pad_left": left, "pad_bottom": up, "pad_right": left}
    options |= {"dilation": dilation, "groups": of.groups}
    steps: Sequence[int] = call.strides[of.inputs[0]] if call.strides else ()
    if len(steps) == 4 and steps[1] == 1 and steps[3] == of.x[1] > 1:
        options["layout"] = "nhwc"
    return "conv", options | {"direction": "forward" if not wanted else "dgrad" if wanted[0] else "wgrad"}


def _recurrent(call: Call) -> tuple[int, int]:
    """oneDNN's layer, all steps of it: the products of the gates; what they were is kept for the backward pass."""
    _only(call, "mkldnn_rnn_layer")
    backward, size = "backward" in call.name, SIZES[call.types[0]]
    (steps, batch, _), weights, hidden = call.shapes[0], _count(call.shapes[2]), call.shapes[5][-1]
    gates = weights // hidden if backward or call.arguments[15] else 0
    moved = sum(_input(call, i) for i in range(5)) + size * steps * batch * (hidden + gates)
    flops = 2 * steps * batch * (_count(call.shapes[1]) + weights)
    return flops * (1 + backward), moved * (1 + backward)


def _attention(call: Call) -> tuple[float, int]:
    """Batch×heads×length×width; the backward pass makes the scores again: five products, not two."""
    if not call.name.startswith("aten::_scaled_dot_product_"):
        raise LookupError(call.name)
    backward = "backward" in call.name
    q, k, v = range(backward, backward + 3)
    (batch, heads, length, width), (*_, keys, _), (*_, values) = (call.shapes[i] for i in (q, k, v))
    result = SIZES[call.types[q]] * batch * heads * length * values
    moved = _whole(call, q) + _whole(call, k) + _whole(call, v) + result
    return 2 * batch * heads * length * keys * (width + values) * (2.5 if backward else 1), moved * (1 + backward)


def _normalize(call: Call) -> int:
    """Passes over the input: what is normalized by statistics that are known is read once."""
    name = _only(call, *NORMS)
    if "backward" in call.name:
        return 4 * _whole(call)
    known = "no_training" in name or (name == "native_batch_norm" and call.arguments[5] is False)
    return _whole(call) * (2 if known else 3)


def _pool(call: Call) -> int:
    """Input, result, and indices where they are one of the results or inputs."""
    if "backward" in call.name:
        resized = SIZES[call.types[0]] * _count(call.arguments[2]) if "upsample" in call.name else 0
        return _inputs(call) + resized
    name, x, places = _base(call), call.shapes[0], call.arguments[1]
    if name in POOLS:
        places = [_windows(call, *axis) for axis in enumerate(x[-len(places) :])]
    elif not name.removeprefix("_").startswith(("adaptive", "upsample")):
        raise LookupError(name)
    indices = INDEX if "indices" in name or "adaptive_max" in name else 0
    result = _count(x[: -len(places)]) * _count(places)
    return _whole(call) + result * (SIZES[call.types[0]] + indices)


def _windows(call: Call, axis: int, size: int) -> int:
    """How many places a window has along an axis; rounded up, the last one may reach over the edge."""
    dilations = [4] if "max" in call.name else []
    taps, stride, padding, *dilation = (
        call.arguments[i][axis] for i in (1, 2 if call.arguments[2] else 1, 3, *dilations)
    )
    up = bool(call.arguments[4 + len(dilations)])
    places = _places(size + up * (stride - 1), taps, stride, padding, *(dilation or [1]))
    return places - int(up and (places - 1) * stride >= size + padding)


def _softmax(call: Call) -> int:
    name, backward = _base(call), "backward" in call.name
    if name in ("_softmax", "_log_softmax", "_masked_softmax"):
        return _whole(call) * (3 if backward else 2)
    if name.startswith("nll_loss"):  # of each row one element; the gradient is cleared first
        rows = _count(call.shapes[1 + backward])
        return INDEX * rows + (_whole(call, 1) if backward else rows * SIZES[call.types[0]])
    return _inputs(call) + (_whole(call, 1) if backward else 0)


def _embed(call: Call) -> int:
    """Rows read and written; of the backward pass the whole table cleared too."""
    if _base(call) == "embedding_dense_backward":
        return 2 * _whole(call) + SIZES[call.types[0]] * _count((call.arguments[2], call.shapes[0][-1]))
    _only(call, "embedding")
    return 2 * SIZES[call.types[0]] * _count((call.shapes[0][-1], *call.shapes[1]))


def _compute(call: Call) -> int:
    """Inputs, and a result of their shapes together, in the widest of their types; in place, or of lists, one like the
    first."""
    name = _base(call)
    if call.types[0] == "TensorList" or call.name.endswith("_"):
        return _inputs(call) + _input(call, 0)
    tensors = [(shape, SIZES[of]) for shape, of in zip(call.shapes, call.types, strict=True) if of in SIZES]
    axes = max(len(shape) for shape, _ in tensors)
    result = _count(map(max, zip(*([1] * (axes - len(shape)) + list(shape) for shape, _ in tensors), strict=True)))
    size = 1 if name in TRUTHS else max(size for shape, size in tensors if len(shape) == axes)
    return _inputs(call) + result * size // (2 if name == "glu" and "backward" not in call.name else 1)


def _copy(call: Call) -> int:
    """Twice what is moved, and the index; a result that is not in place is a copy of the whole first."""
    name = _base(call)
    if name in ("copy_", "_foreach_copy"):
        return _inputs(call)
    if name in MOVES:
        return 2 * _inputs(call)
    index = _input(call, 2) if call.types[2] in ("int", "long int") else 0
    moved = _count(call.shapes[2 if name == "index_select" else MOVED[name]])
    if name == "index_select":  # whole rows
        moved = moved * _count(call.shapes[0]) // call.shapes[0][call.arguments[1]]
    before = 2 * _whole(call) if name not in READS and not call.name.endswith("_") else 0
    return index + 2 * moved * SIZES[call.types[0]] + before


def _update(call: Call) -> int:
    """Passes over the parameters: they and their state are read and written, gradients read."""
    name = _base(call)
    further = 2 if name in STATE and call.shapes[STATE[name]] else 0
    return _input(call, 0) * (PARAMETERS[name] + further)


def _once(call: Call) -> int:
    """One pass over the first tensor."""
    if call.types[0] not in SIZES and call.types[0] != "TensorList":
        raise LookupError(call.name)
    return _input(call, 0)


PRODUCTS: dict[str | None, Callable[[Call], tuple[float, float]]] = {
    "gemm": _gemm,
    "convolution": _convolve,
    "recurrent cell": _recurrent,
    "attention": _attention,
}
PASSES: dict[str | None, Callable[[Call], float]] = {
    "normalization": _normalize,
    "pooling": _pool,
    "embedding": _embed,
    "element-wise": _compute,
    "reduction": lambda call: _inputs(call) * (2 if _base(call) in SCANS else 1),
    "softmax and loss": _softmax,
    "optimizer": _update,
    "copy": _copy,
    "clear": _once,
    "layout reorder": lambda call: 2 * _once(call),
    "packing": lambda call: 2 * _once(call),
    "random numbers": _once,
    "cast": lambda call: _once(call) + _count(call.shapes[0]) * (4 if _base(call) == "dequantize" else 1),
}
