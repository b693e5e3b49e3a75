"""CuPy's functions of arrays, each enqueued as the kernels that CuPy 14 launches for it: `install(fake)`.

A ufunc is one kernel. A reduction of rows that lie in order is CUB's, into memory of its own; a second kernel copies
that to `out`. What CuPy refuses is refused in its words: arrays of NumPy, an `out` of another shape, a cast that loses
more than `same_kind` allows.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.simulated.fake_array import DeviceArray

UFUNCS = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "negative",
    "reciprocal",
    "maximum",
    "minimum",
    "logaddexp",
    "greater",
    "less",
    "equal",
    "not_equal",
    "bitwise_and",
    "bitwise_or",
    "invert",
    "power",
    "exp",
    "log",
    "sqrt",
    "tanh",
)
REDUCTIONS = ("max", "sum", "mean", "all")


def install(fake: Any) -> None:
    """As attributes, where a module's functions would be."""
    for name in UFUNCS:
        setattr(fake, name, partial(ufunc, fake, getattr(np, name)))
    for name in REDUCTIONS:
        setattr(fake, name, partial(reduced, fake, getattr(np, name)))
    for function in (asarray, arange, zeros, zeros_like, ones, full, empty_like, concatenate, take):
        setattr(fake, function.__name__, partial(function, fake))
    fake.random = SimpleNamespace(default_rng=lambda seed: Drawn(fake, np.random.default_rng(seed)))
    fake.fft = SimpleNamespace(rfft2=partial(rfft2, fake), irfft2=partial(irfft2, fake))


def _enqueue(fake: Any, name: str, work: Any) -> None:
    fake.launch(name, fake.cost(name), work)


def ufunc(fake: Any, function: np.ufunc, *given: Any, out: Any = None, casting: Any = "same_kind", **more: Any) -> Any:
    """One kernel, into `out` or into new memory; the output may be the last of the arguments."""
    name = f"cupy_{function.__name__}"
    if more:
        raise TypeError(f"Wrong arguments {more}")
    if not function.nin <= len(given) <= function.nargs:
        raise TypeError(f"Wrong number of arguments for {name!r}.")
    inputs, placed = [_argument(x) for x in given[: function.nin]], given[function.nin :]
    if placed and out is not None:
        raise ValueError("Cannot specify 'out' as both a positional and keyword argument")
    (target,) = out if isinstance(out, tuple) else placed or (out,)
    if target is not None and not isinstance(target, DeviceArray):
        raise TypeError(f"Unsupported type {type(target)}")
    shapes = [x.shape for x in (*inputs, target) if isinstance(x, DeviceArray)]
    shape, kind = np.broadcast_shapes(*shapes), _kind(function, inputs)
    if target is None:
        target = fake.empty(shape, kind)
    elif target.shape != shape:
        raise ValueError("Out shape is mismatched")
    elif not np.can_cast(kind, target.dtype, casting):
        raise TypeError(f"Cannot cast output operand from {kind!r} to {target.dtype!r} by the rule {casting!r}")
    inputs = [_apart(x, target) for x in inputs]

    def work() -> None:
        with np.errstate(all="ignore"):
            found = function(*(x.host if isinstance(x, DeviceArray) else x for x in inputs))
        np.copyto(target.host, found, casting="unsafe")

    _enqueue(fake, name, work)
    return target


def _argument(x: Any) -> Any:
    """An array of the device, or a scalar."""
    if isinstance(x, (DeviceArray, bool, int, float, complex, np.generic)):
        return x
    raise TypeError(f"Unsupported type {type(x)}")


def _kind(function: np.ufunc, inputs: list[Any]) -> np.dtype[Any]:
    """The type that comes out; a number of Python's has none of its own."""
    known = [type(x) if type(x) in (int, float, complex) else np.asarray(0, _dtype(x)).dtype for x in inputs]
    kind: np.dtype[Any] = function.resolve_dtypes((*known, None))[-1]  # type: ignore[arg-type]
    return kind


def _dtype(x: Any) -> Any:
    return x.dtype if isinstance(x, (DeviceArray, np.generic)) else type(x)


def _apart(x: Any, target: DeviceArray) -> Any:
    """Copied where it overlaps the output and is another array object: only the same one is in place."""
    if not isinstance(x, DeviceArray) or x is target or not np.may_share_memory(x.host, target.host):
        return x
    return x.copy()


def reduced(fake: Any, function: Any, a: Any, axis: Any = None, *, out: Any = None, keepdims: bool = False) -> Any:
    """Along an axis, or all of it."""
    if not isinstance(a, DeviceArray) or not (out is None or isinstance(out, DeviceArray)):
        raise TypeError(f"Argument 'a' has incorrect type ({type(a)}), or the output ({type(out)})")
    like = np.broadcast_to(np.zeros((), a.dtype), a.shape)
    wanted = np.asarray(function(like, axis=axis, keepdims=keepdims))
    name = f"cupy_{function.__name__}"
    if out is not None and out.shape != wanted.shape:
        raise ValueError("output parameter for reduction operation has the wrong shape")
    made = fake.empty(wanted.shape, wanted.dtype)

    def work() -> None:
        made.host[...] = function(a.host, axis=axis, keepdims=keepdims)

    _enqueue(fake, name, work)
    if out is None:
        return made
    _enqueue(fake, "cupy_copy", lambda: np.copyto(out.host, made.host, casting="unsafe"))
    return out


def asarray(fake: Any, given: Any, dtype: Any = None) -> Any:
    """An array of the device as it is; one of the host is copied, in the stream's order, as it is now."""
    if isinstance(given, DeviceArray):
        return given if dtype is None else given.astype(dtype, copy=False)
    host = np.array(given, dtype)
    made = fake.empty(host.shape, host.dtype)
    fake.launch("memcpy from the host", 0.0, lambda: np.copyto(made.host, host))
    return made


def arange(fake: Any, stop: int) -> Any:
    made = fake.empty((stop,), np.int64)
    _enqueue(fake, "cupy_arange", lambda: np.copyto(made.host, np.arange(stop)))
    return made


def zeros(fake: Any, shape: Any, dtype: Any = float) -> Any:
    made = fake.empty(shape, dtype)
    made.fill(0)
    return made


class Drawn:
    """A generator. Without a shape it draws one number, whatever the output: CuPy 14 spreads it over all of that."""

    def __init__(self, fake: Any, of: np.random.Generator) -> None:
        self.fake, self.of = fake, of

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        assert size is None or tuple(size) == out.shape
        drawn = self.of.random(size, dtype=dtype)
        _enqueue(self.fake, "cupy_random", lambda: np.copyto(out.host, drawn))
        return out


def zeros_like(fake: Any, a: Any) -> Any:
    return zeros(fake, a.shape, a.dtype)


def ones(fake: Any, shape: Any, dtype: Any = float) -> Any:
    return full(fake, shape, 1, dtype)


def full(fake: Any, shape: Any, value: Any, dtype: Any) -> Any:
    made = fake.empty(shape if isinstance(shape, tuple) else (shape,), dtype)
    made.fill(value)
    return made


def empty_like(fake: Any, a: Any) -> Any:
    return fake.empty(a.shape, a.dtype)


def concatenate(fake: Any, arrays: Any, axis: int = 0, out: Any = None) -> Any:
    """A copy of each."""
    shapes = [list(x.shape) for x in arrays]
    whole = [*shapes[0]]
    whole[axis] = sum(shape[axis] for shape in shapes)
    if out is None:
        out = fake.empty(tuple(whole), arrays[0].dtype)
    elif list(out.shape) != whole:
        raise ValueError("Shape mismatch")
    start = 0
    for x in arrays:
        part = (slice(None),) * axis + (slice(start, start + x.shape[axis]),)
        out[part]._assign(x)
        start += x.shape[axis]
    return out


def take(fake: Any, a: Any, indices: Any, axis: Any = None, out: Any = None) -> Any:
    """One kernel. There is no `mode`: what lies outside is wrapped around."""
    if not isinstance(a, DeviceArray):
        raise TypeError(f"Unsupported type {type(a)}")
    indices = asarray(fake, indices)
    shape = np.take(np.broadcast_to(np.zeros((), a.dtype), a.shape), np.zeros(indices.shape, int), axis).shape
    if out is None:
        out = fake.empty(shape, a.dtype)
    elif out.dtype != a.dtype:
        raise TypeError("Output dtype mismatch")
    elif out.shape != shape:
        raise ValueError("Output shape mismatch")
    _enqueue(fake, "cupy_take", lambda: np.copyto(out.host, np.take(a.host, indices.host, axis, mode="wrap")))
    return out


def rfft2(fake: Any, a: Any) -> Any:
    """Of the last two axes, into new memory."""
    made = fake.empty((*a.shape[:-1], a.shape[-1] // 2 + 1), np.complex64)
    _enqueue(fake, "cupy_fft", lambda: np.copyto(made.host, np.fft.rfft2(a.host.astype(np.float64)), "same_kind"))
    return made


def irfft2(fake: Any, a: Any, s: tuple[int, int]) -> Any:
    """What it reads stays as it is: it is copied, since cuFFT destroys it."""
    made = fake.empty((*a.shape[:-2], *s), np.float32)
    _enqueue(fake, "cupy_copy", lambda: None)
    _enqueue(
        fake, "cupy_fft", lambda: np.copyto(made.host, np.fft.irfft2(a.host.astype(np.complex128), s), "same_kind")
    )
    return made
