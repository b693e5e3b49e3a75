"""CuPy's arrays and their functions on host memory, each enqueued as the kernels that CuPy 14 launches for it.

A ufunc is one kernel. A reduction is one into memory of its own; a second kernel copies that to `out`. CuPy's refusals
are refused: arrays of NumPy, an `out` of another shape, a cast that loses more than `same_kind` allows. An array does
not become NumPy's by itself, and whatever needs a value on the host waits for the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

REDUCTIONS = ("max", "sum", "mean", "all")
FACTS = ("shape", "strides", "dtype", "ndim", "size", "nbytes", "flags")


class Memory:
    """A pointer into host memory; what CuPy calls a MemoryPointer."""

    def __init__(self, fake: Any, base: np.ndarray, offset: int = 0) -> None:
        self.fake, self.base, self.offset = fake, base, offset
        self.ptr = base.ctypes.data + offset

    def __add__(self, offset: int) -> Memory:
        return Memory(self.fake, self.base, self.offset + offset)

    def memset_async(self, value: int, nbytes: int, stream: object) -> None:
        assert stream is self.fake.stream
        self.fake.journal.append(f"memset {nbytes}")
        self.fake.enqueue(lambda: self.base[self.offset : self.offset + nbytes].fill(value))


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin):
    """`host` is its memory. Its work goes through `fake`, a FakeCupy; every operator is a ufunc."""

    def __init__(self, fake: Any, host: np.ndarray) -> None:
        self.fake, self.host = fake, host

    def __getattr__(self, name: str) -> Any:
        if name in REDUCTIONS:
            return partial(getattr(self.fake, name), self)
        if name in FACTS:
            return getattr(self.host, name)
        raise AttributeError(name)

    def __dlpack__(self, **how: Any) -> Any:
        """Export to whoever computes on the CPU, in the fake's memory."""
        return self.host.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.host.__dlpack_device__()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **more: Any) -> Any:
        """Call CuPy's function of that name, which takes no array of NumPy."""
        assert method == "__call__"
        return getattr(self.fake, ufunc.__name__)(*given, **more)

    def __array__(self, *how: Any, **more: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def _like(self, host: np.ndarray) -> Any:
        return DeviceArray(self.fake, host)

    @property
    def data(self) -> Memory:
        base: Any = self.host
        while isinstance(base.base, np.ndarray):
            base = base.base
        raw = base.view(np.uint8).reshape(-1)
        return Memory(self.fake, raw, self.host.ctypes.data - raw.ctypes.data)

    @property
    def T(self) -> Any:
        return self._like(self.host.T)

    def view(self, kind: Any) -> Any:
        return self._like(self.host.view(kind))

    def reshape(self, *shape: Any) -> Any:
        """A view; where that cannot be, of a copy."""
        new = self.host.reshape(*shape)
        return self._like(new) if np.shares_memory(new, self.host) else self.copy().reshape(*shape)

    def copy(self) -> Any:
        return new(self.fake, "copy", self.shape, self.dtype, lambda: self.host)

    def astype(self, kind: Any, copy: bool = True) -> Any:
        if self.dtype == kind and not copy:
            return self
        return new(self.fake, "copy", self.shape, kind, lambda: self.host)

    def get(self) -> np.ndarray:
        values: np.ndarray = self.fake.asnumpy(self)
        return values

    def item(self) -> Any:
        return self.get().item()

    def __bool__(self) -> bool:
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __len__(self) -> int:
        return len(self.host)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, where: Any) -> Any:
        index, picked = self._index(where)
        if not picked:
            rest = () if any(x is ... for x in index) else (...,)
            return self._like(self.host[(*index, *rest)])  # an element alone is an array, too
        return new(self.fake, "take", self._picked(index), self.dtype, lambda: self.host[_hosts(index)])

    def __setitem__(self, where: Any, value: Any) -> None:
        index, picked = self._index(where)
        if not picked:
            self[where].assign(value)
            return
        given = value if isinstance(value, DeviceArray) else self.fake.asarray(value, self.dtype)
        given = given.astype(self.dtype, copy=False)
        spread = np.broadcast_to(given.host, self._picked(index))
        _enqueue(self.fake, "scatter_update", lambda: self.host.__setitem__(_hosts(index), spread))

    def _index(self, where: Any) -> tuple[tuple[Any, ...], list[Any]]:
        """The index and the arrays in it, which are copied to the device; several become one, a pass for each."""
        words = where if isinstance(where, tuple) else (where,)
        plain = (slice, int, np.integer, DeviceArray, type(None), type(...))
        index = tuple(x if isinstance(x, plain) else self.fake.asarray(x) for x in words)
        picked = [x for x in index if isinstance(x, DeviceArray)]
        for x in picked:
            assert x.dtype.kind in "iu", "a mask waits for the stream, and no other arrays are indices"
        if len(picked) > 1:
            self.fake.empty(np.broadcast_shapes(*(x.shape for x in picked)), np.int64).fill(0)
            for _ in picked:
                _enqueue(self.fake, "prepare_array_indexing", lambda: None)
        return index, picked

    def _picked(self, index: tuple[Any, ...]) -> tuple[int, ...]:
        """The shape of what an index names."""
        first = tuple(np.zeros(x.shape, np.intp) if isinstance(x, DeviceArray) else x for x in index)
        return np.broadcast_to(np.empty((), self.dtype), self.shape)[first].shape

    def assign(self, value: Any) -> None:
        """Write all of it; from the host a scalar alone."""
        if not isinstance(value, DeviceArray):
            self.fill(value)
            return
        there = value.host
        while there.ndim > self.ndim and there.shape[0] == 1:
            there = there[0]
        there = np.broadcast_to(there, self.shape)
        if there.ctypes.data != self.host.ctypes.data or there.strides != self.host.strides:
            self.fake.launch("cupy_copy", 0.0, lambda: np.copyto(self.host, there, casting="unsafe"))

    def fill(self, value: Any) -> None:
        scalar = None if isinstance(value, DeviceArray) else np.asarray(value, self.dtype)
        if scalar is None or scalar.shape != ():
            raise ValueError(f"non-scalar {type(value)} cannot be used for fill")
        if scalar == 0 and self.flags.c_contiguous:
            self.data.memset_async(0, self.nbytes, self.fake.stream)
        else:
            self.fake.launch("cupy_fill", 0.0, lambda: self.host.fill(scalar[()]))


def _hosts(given: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x.host if isinstance(x, DeviceArray) else x for x in given)


def _enqueue(fake: Any, name: str, work: Callable[[], object]) -> None:
    fake.launch(f"cupy_{name}", fake.cost(f"cupy_{name}"), work)


def new(fake: Any, name: str, shape: Any, kind: Any, values: Callable[[], Any]) -> Any:
    """Return new memory, into which a kernel writes."""
    made = fake.empty(shape, kind)
    _enqueue(fake, name, lambda: np.copyto(made.host, values(), casting="unsafe"))
    return made


def install(fake: Any) -> None:
    """Set the functions that are no ufuncs as attributes, where a module's would be."""
    for name in REDUCTIONS:
        setattr(fake, name, partial(reduced, fake, getattr(np, name)))
    for function in (asarray, arange, zeros, concatenate, take):
        setattr(fake, function.__name__, partial(function, fake))
    fake.zeros_like = lambda a: zeros(fake, a.shape, a.dtype)
    fake.ones = lambda shape, dtype=float: zeros(fake, shape, dtype, 1)
    fake.full = lambda shape, value, dtype: zeros(fake, shape, dtype, value)
    fake.empty_like = lambda a: fake.empty(a.shape, a.dtype)
    fake.random = SimpleNamespace(default_rng=lambda seed: Drawn(fake, np.random.default_rng(seed)))
    fake.fft = SimpleNamespace(rfft2=partial(rfft2, fake), irfft2=partial(irfft2, fake))


def _refuse_others(*given: Any) -> None:
    for x in given:
        if not isinstance(x, (DeviceArray, bool, int, float, complex, np.generic)):
            raise TypeError(f"Unsupported type {type(x)}")


def ufunc(fake: Any, function: np.ufunc, *given: Any, out: Any = None, casting: Any = "same_kind") -> Any:
    """Run one kernel, into `out` or into new memory; the output may be the last of the arguments."""
    inputs, placed = given[: function.nin], given[function.nin :]
    assert len(inputs) == function.nin and (not placed or out is None)
    (target,) = out if isinstance(out, tuple) else placed or (out,)
    _refuse_others(*inputs, *(() if target is None else (target,)))
    shapes = [x.shape for x in (*inputs, target) if isinstance(x, DeviceArray)]
    shape, kind = np.broadcast_shapes(*shapes), _kind(function, inputs)
    if target is None:
        target = fake.empty(shape, kind)
    elif target.shape != shape:
        raise ValueError("Out shape is mismatched")
    elif not np.can_cast(kind, target.dtype, casting):
        raise TypeError(f"Cannot cast output operand from {kind!r} to {target.dtype!r} by the rule {casting!r}")
    inputs = tuple(_apart(x, target) for x in inputs)

    def work() -> None:
        with np.errstate(all="ignore"):
            values = function(*_hosts(inputs))
        np.copyto(target.host, values, casting="unsafe")

    _enqueue(fake, function.__name__, work)
    return target


def _kind(function: np.ufunc, inputs: tuple[Any, ...]) -> np.dtype[Any]:
    """The type that comes out; a number of Python's has none of its own."""
    known = [
        type(x) if type(x) in (int, float, complex) else np.dtype(x.dtype if hasattr(x, "dtype") else type(x))
        for x in inputs
    ]
    kind: np.dtype[Any] = function.resolve_dtypes((*known, None))[-1]  # type: ignore[arg-type]
    return kind


def _apart(x: Any, target: DeviceArray) -> Any:
    """Copied where it overlaps the output and is another array object: only the same one is in place."""
    if not isinstance(x, DeviceArray) or x is target or not np.may_share_memory(x.host, target.host):
        return x
    return x.copy()


def reduced(fake: Any, function: Any, a: Any, axis: Any = None, *, out: Any = None, keepdims: bool = False) -> Any:
    """Reduce along an axis, or all of it."""
    if not isinstance(a, DeviceArray) or not (out is None or isinstance(out, DeviceArray)):
        raise TypeError(f"Argument 'a' has incorrect type ({type(a)}), or the output ({type(out)})")
    like = np.broadcast_to(np.zeros((), a.dtype), a.shape)
    wanted = np.asarray(function(like, axis=axis, keepdims=keepdims))
    if out is not None and out.shape != wanted.shape:
        raise ValueError("output parameter for reduction operation has the wrong shape")
    values = partial(function, a.host, axis=axis, keepdims=keepdims)
    made = new(fake, function.__name__, wanted.shape, wanted.dtype, values)
    if out is None:
        return made
    _enqueue(fake, "copy", lambda: np.copyto(out.host, made.host, casting="unsafe"))
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
    return new(fake, "arange", (stop,), np.int64, lambda: np.arange(stop))


def zeros(fake: Any, shape: Any, dtype: Any = float, value: Any = 0) -> Any:
    made = fake.empty(shape, dtype)
    made.fill(value)
    return made


class Drawn:
    """A generator. Without a shape it draws one number, whatever the output: CuPy 14 spreads it over all of that."""

    def __init__(self, fake: Any, of: np.random.Generator) -> None:
        self.fake, self.of = fake, of

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        assert size is None or tuple(size) == out.shape
        drawn = self.of.random(size, dtype=dtype)
        _enqueue(self.fake, "random", lambda: np.copyto(out.host, drawn))
        return out


def concatenate(fake: Any, arrays: Any, axis: int = 0, out: Any = None) -> Any:
    """Copy each."""
    shape = [*arrays[0].shape]
    shape[axis] = sum(x.shape[axis] for x in arrays)
    if out is None:
        out = fake.empty(tuple(shape), arrays[0].dtype)
    elif list(out.shape) != shape:
        raise ValueError("Shape mismatch")
    start = 0
    for x in arrays:
        part = (slice(None),) * axis + (slice(start, start + x.shape[axis]),)
        out[part].assign(x)
        start += x.shape[axis]
    return out


def take(fake: Any, a: Any, indices: Any, axis: Any = None, out: Any = None) -> Any:
    """Run one kernel. There is no `mode`: what lies outside is wrapped around."""
    if not isinstance(a, DeviceArray):
        raise TypeError(f"Unsupported type {type(a)}")
    indices = asarray(fake, indices)
    shape = np.take(np.broadcast_to(np.zeros((), a.dtype), a.shape), np.zeros(indices.shape, int), axis).shape
    if out is None:
        out = fake.empty(shape, a.dtype)
    elif (out.dtype, out.shape) != (a.dtype, shape):
        raise TypeError("Output dtype or shape mismatch")
    _enqueue(fake, "take", lambda: np.copyto(out.host, np.take(a.host, indices.host, axis, mode="wrap")))
    return out


def rfft2(fake: Any, a: Any) -> Any:
    """Transform the last two axes, into new memory."""
    shape = (*a.shape[:-1], a.shape[-1] // 2 + 1)
    return new(fake, "fft", shape, np.complex64, lambda: np.fft.rfft2(a.host.astype(np.float64)))


def irfft2(fake: Any, a: Any, s: tuple[int, int]) -> Any:
    """Leave what it reads as it is: it is copied, since cuFFT destroys it."""
    _enqueue(fake, "copy", lambda: None)
    shape = (*a.shape[:-2], *s)
    return new(fake, "fft", shape, np.float32, lambda: np.fft.irfft2(a.host.astype(np.complex128), s))
