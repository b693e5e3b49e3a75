"""Nominal work of a call and of a step, from shapes, and the benchmark that measures a call alone.

A call's amount includes the calls inside it, so of nested calls with an amount only the outermost counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from macro.explaining import modules
from macro.explaining.attribute import Key
from macro.explaining.called import LOW_RANK, THIN, Places
from macro.explaining.kinds import of_operation
from macro.explaining.operation_call import (
    LIST,
    PASSES,
    SIZES,
    Amount,
    Call,
    base,
    count,
    only,
    read,
    tensor_bytes,
    windows,
)
from macro.explaining.rows import OUTSIDE
from macro.watching.recording import Called

MICRO: dict[str, dict[str, str]] = {"float": {}, "c10::BFloat16": {"dtype": "bf16"}, "c10::Half": {"dtype": "fp16"}}
# Indices of the inputs that are the two factors; a linear layer's second factor is N×K, and may be packed.
FACTORS = {"mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "_scaled_mm": (0, 1), "addmm": (1, 2), "addmv": (1, 2)}
FACTORS |= {"baddbmm": (1, 2), "addbmm": (1, 2), "_addmm_activation": (1, 2)}
FEW = 4  # columns or rows of a product that is bound by memory, at most
FORWARDS = ("forward", "recompute")  # phases in which a module makes a weight
LOW = 8  # times the rank of two factors: the least rows and columns of a product of low rank
LINEAR = {"mkldnn_linear": (0, 1), "_weight_int8pack_mm": (0, 1), "mkldnn::_linear_pointwise": (0, 1)}
LINEAR |= {"mkl::_mkl_linear": (0, 2), "onednn::qlinear_pointwise": (0, 3)}
FACTORS |= LINEAR
# A tensor's type, as the profiler names it, and the name of the type in which a product of such tensors is computed.
COMPUTED = {"float": "float32", "double": "float64", "c10::BFloat16": "bfloat16", "c10::Half": "float16"}
COMPUTED |= dict.fromkeys(("signed char", "unsigned char", "c10::qint8", "c10::quint8"), "int8")
BACKWARD = "convolution_backward"
# Indices of the arguments stride, padding, dilation and groups; -1: not an argument, the setting is 1.
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


def amount(call: Call) -> Amount | None:
    """Return the nominal work of a call, or None if it is unknown."""
    of = of_operation(call.name)
    if of == "dispatch":
        return Amount(0.0, 0.0)
    try:
        if of in PRODUCTS:
            return Amount(*map(float, PRODUCTS[of](_plain(call))))
        return Amount(0.0, float(PASSES[of](call))) if of in PASSES and call.shapes else None
    except (LookupError, TypeError, ValueError, ArithmeticError):  # not in the tables, or recorded without shapes
        return None


def precision(call: Call) -> str:
    """Return the data type in which a product is computed: the type of its first factor."""
    name = call.types[FACTORS.get(base(call), (0,))[0]]
    return COMPUTED.get(name, name.removeprefix("c10::"))


def alone(call: Call) -> tuple[str, dict[str, Any]] | None:
    """Return micro's benchmark and options that measure this call by itself, or None if there are none.

    A convolution's backward pass is two products of equal work; the benchmark is dgrad if the call computes it."""
    try:
        if of_operation(call.name) == "convolution":
            return _conv_options(_plain(call))
        return _gemm_options(_plain(call)) if of_operation(call.name) == "gemm" else None
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return None


def _plain(call: Call) -> Call:
    """Drop the operand that some fused oneDNN products add; it is the input before the weights."""
    if not call.name.startswith("mkldnn::_") or len(call.shapes[2]) < 2:
        return call
    return Call(call.name, *([*x[:1], *x[2:]] for x in (call.shapes, call.types, call.arguments, call.strides)))


def _product(call: Call) -> tuple[int, int, int, int]:
    """Return batch, m, n and k of a matrix product."""
    a, b = (call.shapes[i] for i in FACTORS[base(call)])
    if base(call) in LINEAR:
        return 1, count(a[:-1]), count(b) // a[-1], a[-1]
    return count(a[:-2]), a[-2], b[-1] if len(b) > 1 else 1, a[-1]


def _gemm(call: Call) -> tuple[int, int]:
    (batch, m, n, k), (a, b) = _product(call), FACTORS[base(call)]
    result = m * n * (1 if base(call) == "addbmm" else batch)
    return 2 * batch * m * n * k, read(call, a) + read(call, b) + result * SIZES[call.types[a]]


def _gemm_options(call: Call) -> tuple[str, dict[str, Any]] | None:
    (_, m, n, k), (a, b) = _product(call), FACTORS[base(call)]
    if min(m, n, k) < 1 or len(call.shapes[b]) > 2:
        return None
    options = {"m": m, "n": n, "k": k, **MICRO[call.types[a]]}
    if base(call) in LINEAR:
        options["trans"] = "nt"
    elif call.strides:
        options["trans"] = "".join(_stored(call.shapes[i], call.strides[i]) for i in (a, b))
    return "gemm", options


def _stored(shape: Sequence[int], strides: Sequence[int]) -> str:
    """Return micro's transposition letter: t if the matrix is stored by columns, else n."""
    by_rows = strides[-1] == 1 and (len(shape) < 2 or shape[0] == 1 or strides[0] >= shape[1])
    return "t" if strides[0] == 1 and not by_rows else "n"


def _each(call: Call, i: int, axes: int) -> list[int]:
    """Return a convolution's setting for each axis; a scalar holds for all axes, a missing argument is 1."""
    value = call.arguments[i] if i >= 0 else 1
    values = list(value) if isinstance(value, Sequence) else [value]
    return values if len(values) == axes else values * axes


@dataclass(frozen=True)
class _Convolution:
    """Shapes and settings of a convolution."""

    inputs: tuple[int, int]  # indices of the call's inputs x and w
    x: Sequence[int]  # N×C×…
    w: Sequence[int]  # K×C/groups×…
    y: Sequence[int]  # N×K×…
    stride: list[int]  # for each axis
    padding: list[int]  # for each axis
    dilation: list[int]  # for each axis
    groups: int


def _convolution(call: Call) -> _Convolution:
    name, settings = base(call), CONVOLUTIONS[base(call)]
    if name in TRANSPOSED and call.arguments[TRANSPOSED[name]]:
        raise LookupError(name)
    x, w = (1, 2) if name == BACKWARD else (0, 1)
    image, filters = call.shapes[x], call.shapes[w]
    stride, padding, dilation = (_each(call, i, len(image) - 2) for i in settings[:3])
    lines = zip(image[2:], filters[2:], stride, padding, dilation, strict=True)
    y = call.shapes[0] if name == BACKWARD else [image[0], filters[0], *(windows(*line) for line in lines)]
    return _Convolution((x, w), image, filters, y, stride, padding, dilation, *_each(call, settings[3], 1))


def _convolve(call: Call) -> tuple[int, int]:
    of = _convolution(call)
    times = sum(call.arguments[10][:2]) if base(call) == BACKWARD else 1
    flops = 2 * of.x[0] * count(of.y[2:]) * count(of.w)
    moved = sum(read(call, i) for i in of.inputs) + SIZES[call.types[of.inputs[0]]] * count(of.y)
    return times * flops, times * moved


def _conv_options(call: Call) -> tuple[str, dict[str, Any]] | None:
    """Return options of micro's conv, or None if the call needs settings that conv lacks."""
    of = _convolution(call)
    wanted, line = [*call.arguments[10][:2]] if base(call) == BACKWARD else [], len(of.x) == 3
    (h, w), (r, s), places = ([1] * line + list(shape[2:]) for shape in (of.x, of.w, of.y))
    up, left = pads = [0] * line + of.padding
    (stride,) = {x for x, out in zip(of.stride, of.y[2:], strict=True) if out > 1} or {max(of.stride)}
    (dilation,) = {x for x, taps in zip(of.dilation, of.w[2:], strict=True) if taps > 1} or {1}
    lines = zip((h, w), (r, s), pads, places, strict=True)
    same = all(windows(size, taps, stride, pad, dilation) == out for size, taps, pad, out in lines)
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
    """Return FLOP and bytes of oneDNN's recurrent layer over all steps; gates are stored for backward."""
    only(call, "mkldnn_rnn_layer")
    backward, size = "backward" in call.name, SIZES[call.types[0]]
    (steps, batch, _), weights, hidden = call.shapes[0], count(call.shapes[2]), call.shapes[5][-1]
    gates = weights // hidden if backward or call.arguments[15] else 0
    moved = sum(read(call, i) for i in range(5)) + size * steps * batch * (hidden + gates)
    flops = 2 * steps * batch * (count(call.shapes[1]) + weights)
    return flops * (1 + backward), moved * (1 + backward)


def _attention(call: Call) -> tuple[float, int]:
    """Return FLOP and bytes of attention: two products; five in backward, which recomputes the scores."""
    if not call.name.startswith("aten::_scaled_dot_product_"):
        raise LookupError(call.name)
    backward = "backward" in call.name
    q, k, v = range(backward, backward + 3)
    (batch, heads, length, width), (*_, keys, _), (*_, values) = (call.shapes[i] for i in (q, k, v))
    result = SIZES[call.types[q]] * batch * heads * length * values
    moved = tensor_bytes(call, q) + tensor_bytes(call, k) + tensor_bytes(call, v) + result
    return 2 * batch * heads * length * keys * (width + values) * (2.5 if backward else 1), moved * (1 + backward)


PRODUCTS: dict[str | None, Callable[[Call], tuple[float, float]]] = {
    "gemm": _gemm,
    "convolution": _convolve,
    "recurrent cell": _recurrent,
    "attention": _attention,
}


@dataclass
class Work:
    """Work of a step's operations by cell (row, kind), from shapes, with the largest call of each cell."""

    flops: dict[Key, float] = field(default_factory=dict)
    bytes: dict[Key, float] = field(default_factory=dict)
    calls: Counter[Key] = field(default_factory=Counter)
    largest: dict[Key, tuple[float, Call]] = field(default_factory=dict)
    typed: dict[Key, dict[str, float]] = field(default_factory=dict)  # FLOP by data type
    far: dict[Key, float] = field(default_factory=dict)  # bytes of calls that exceed the last-level cache
    thin: dict[Key, float] = field(default_factory=dict)  # of these, bytes of products of few columns or rows
    places: Places = field(default_factory=Places)
    shapes: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)  # of calls, by row and operation

    def round_products(self) -> None:
        """Count products of float32 as bfloat16, in which torch.set_float32_matmul_precision("medium") runs them."""
        for (_, column), typed in self.typed.items():
            if column == "gemm" and "float32" in typed:
                typed["bfloat16"] = typed.get("bfloat16", 0.0) + typed.pop("float32")


def work_of(called: Sequence[Called], cache: int = 0) -> Work:
    """Sum the work of a step's calls, outermost if nested; `cache`: bytes of the last-level cache."""
    work, inside, factored = Work(), dict[int, int](), set[tuple[str | int, ...]]()
    by_event = {id(x.event): x for x in called}
    for event, where, column in modules.placed([x.event for x in called]):
        key = ((where.row,) if where else (OUTSIDE,), column or "")
        recorded, path = by_event[id(event)], where.path if where else OUTSIDE
        call = Call(event.name, recorded.shapes, recorded.types, recorded.arguments, recorded.strides)
        work.places.add(event.name.removeprefix("aten::"), path, recorded.shapes)
        if thin(call) > 1:
            work.places.add(THIN, path, recorded.shapes)
        if where and where.phase in FORWARDS and (shape := _factored(call)):
            factored.add((path, *shape))
        if event.name == "aten::linear" and (path, *call.shapes[1]) in factored and _few_rows(*call.shapes[:2]):
            work.places.add(LOW_RANK, path, recorded.shapes)
        if column in (None, "dispatch", "data") or event.start < inside.get(event.thread, 0):
            continue
        work.shapes.setdefault((key[0][0], event.name), Counter())[largest_shape(call)] += 1
        done = amount(call)
        if done is None:
            continue
        inside[event.thread] = event.end
        _add(work, key, call, done, cache)
    return work


def _add(work: Work, key: Key, call: Call, done: Amount, cache: int) -> None:
    work.calls[key] += 1
    work.flops[key] = work.flops.get(key, 0.0) + done.flops
    work.bytes[key] = work.bytes.get(key, 0.0) + done.bytes
    if done.flops:
        typed, name = work.typed.setdefault(key, {}), precision(call)
        typed[name] = typed.get(name, 0.0) + done.flops
    size = max(done.flops, done.bytes)
    if size > work.largest.get(key, (0.0, None))[0]:
        work.largest[key] = size, call
    if done.bytes > cache:
        work.far[key] = work.far.get(key, 0.0) + done.bytes
        if thin(call):
            work.thin[key] = work.thin.get(key, 0.0) + done.bytes


def thin(call: Call) -> int:
    """Return the number of matrices of a product of at most FEW columns or rows, which reads more than it computes."""
    batch, m, n, _ = _dimensions(call)
    return batch if min(m, n) <= FEW else 0


def _factored(call: Call) -> tuple[int, int] | None:
    """Return the shape of a matrix that is the product of two factors of far lower rank, None of others."""
    batch, m, n, k = _dimensions(call)
    return (m, n) if batch == 1 and LOW * k <= min(m, n) else None


def _few_rows(inputs: Sequence[int], weight: Sequence[int]) -> bool:
    """Return whether multiplying a linear layer's inputs by thin factors costs less than multiplying out its weight."""
    return count(inputs[:-1]) * sum(weight) < count(weight)


def _dimensions(call: Call) -> tuple[int, int, int, int]:
    """Return batch, m, n and k of a product of plain matrices; batch 0 of all other calls."""
    if base(call) not in FACTORS or base(call) in LINEAR:
        return 0, 0, 0, 0
    try:
        return _product(_plain(call))
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return 0, 0, 0, 0


def largest_shape(call: Call) -> str:
    """Return the shape of a call's input with the most elements, such as `80000×64`; "" without a tensor."""
    shapes = [x for shape, of in zip(call.shapes, call.types, strict=False) for x in (shape if of == LIST else [shape])]
    return "×".join(map(str, max(shapes, key=count, default=[])))


def alone_command(call: Call) -> str:
    """Return the command that measures a call by itself, or "" if there is none."""
    again = alone(call)
    return command_line(*again) if again else ""


def command_line(benchmark: str, options: Mapping[str, Any]) -> str:
    """Format the command line of a micro benchmark with these options."""
    words = [f"--{name.replace('_', '-')}{'' if value is True else f' {value}'}" for name, value in options.items()]
    return " ".join([f"python -m micro.{benchmark}", *words])
