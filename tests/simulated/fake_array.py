"""CuPy's array on host memory: what is computed or written is enqueued, and what CuPy refuses is refused.

After CuPy 14: NumPy's arrays are not taken where one of the device is wanted, a device's array does not become NumPy's
by itself, and whatever needs a value on the host waits for the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


class DeviceArray:
    """`host` is its memory. What it enqueues goes through `fake`, a FakeCupy."""

    def __init__(self, fake: Any, host: np.ndarray) -> None:
        self.fake, self.host = fake, host

    shape = property(lambda self: self.host.shape)
    strides = property(lambda self: self.host.strides)
    dtype = property(lambda self: self.host.dtype)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    nbytes = property(lambda self: self.host.nbytes)
    flags = property(lambda self: self.host.flags)
    T = property(lambda self: self._like(self.host.T))

    def _like(self, host: np.ndarray) -> Any:
        return type(self)(self.fake, host)

    def view(self, kind: Any) -> Any:
        return self._like(self.host.view(kind))

    def reshape(self, *shape: Any) -> Any:
        """A view; where that cannot be, of a copy."""
        new = self.host.reshape(*shape)
        if np.shares_memory(new, self.host):
            return self._like(new)
        return self.copy().reshape(*shape)

    def copy(self) -> Any:
        made = self.fake.empty(self.shape, self.dtype)
        self._enqueue("cupy_copy", lambda: np.copyto(made.host, self.host))
        return made

    def astype(self, kind: Any, copy: bool = True) -> Any:
        if self.dtype == kind and not copy:
            return self
        made = self.fake.empty(self.shape, kind)
        self._enqueue("cupy_copy", lambda: np.copyto(made.host, self.host, casting="unsafe"))
        return made

    def _enqueue(self, name: str, work: Any) -> None:
        self.fake.launch(name, self.fake.cost(name), work)

    # What the host may know of its values

    def get(self) -> np.ndarray:
        found: np.ndarray = self.fake.asnumpy(self)
        return found

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

    def __array__(self, *how: Any, **more: Any) -> np.ndarray:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def __dlpack__(self, **how: Any) -> Any:
        """To whoever computes on the CPU, in the fake's memory."""
        return self.host.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.host.__dlpack_device__()

    # Parts of it

    def __getitem__(self, where: Any) -> Any:
        index = self._index(where)
        picked = [x for x in index if isinstance(x, DeviceArray)]
        if not picked:
            whole = () if any(x is ... for x in index) else (...,)
            return self._like(self.host[(*index, *whole)])  # an element alone is an array, too
        self._reduced(picked)
        made = self.fake.empty(self._picked(index), self.dtype)
        self._enqueue("cupy_take", lambda: np.copyto(made.host, self.host[_hosts(index)]))
        return made

    def __setitem__(self, where: Any, value: Any) -> None:
        index = self._index(where)
        picked = [x for x in index if isinstance(x, DeviceArray)]
        if not picked:
            self[where]._assign(value)
            return
        self._reduced(picked)
        given = value if isinstance(value, DeviceArray) else self.fake.asarray(value, self.dtype)
        given = given.astype(self.dtype, copy=False)
        spread = np.broadcast_to(given.host, self._picked(index))
        self._enqueue("cupy_scatter_update", lambda: self.host.__setitem__(_hosts(index), spread))

    def _index(self, where: Any) -> tuple[Any, ...]:
        """Arrays of NumPy, and lists, are copied to the device."""
        words = where if isinstance(where, tuple) else (where,)
        plain = (slice, int, np.integer, DeviceArray, type(None), type(...))
        index = tuple(x if isinstance(x, plain) else self.fake.asarray(x) for x in words)
        for x in index:
            if isinstance(x, DeviceArray):
                assert x.dtype.kind in "iu", "a mask waits for the stream, and no other arrays are indices"
        return index

    def _picked(self, index: tuple[Any, ...]) -> tuple[int, ...]:
        """The shape of what an index names."""
        first = tuple(np.zeros(x.shape, np.intp) if isinstance(x, DeviceArray) else x for x in index)
        return np.broadcast_to(np.empty((), self.dtype), self.shape)[first].shape

    def _reduced(self, picked: list[Any]) -> None:
        """Several indices become one before they are used, a pass for each."""
        if len(picked) == 1:
            return
        shape = np.broadcast_shapes(*(x.shape for x in picked))
        joined = self.fake.empty(shape, np.int64)
        joined.fill(0)
        for _ in picked:
            self._enqueue("cupy_prepare_array_indexing", lambda: None)

    def _assign(self, value: Any) -> None:
        """All of it. Of the host a scalar alone."""
        if not isinstance(value, DeviceArray):
            self.fill(value)
            return
        there = value.host
        while there.ndim and there.shape[0] == 1 and there.ndim > self.ndim:
            there = there[0]
        there = np.broadcast_to(there, self.shape)
        if there.ctypes.data == self.host.ctypes.data and there.strides == self.host.strides:
            return
        self.fake.launch("cupy_copy", 0.0, lambda: np.copyto(self.host, there, casting="unsafe"))

    def fill(self, value: Any) -> None:
        if isinstance(value, DeviceArray):
            raise ValueError("non-scalar cupy.ndarray cannot be used for fill")
        scalar = np.asarray(value, self.dtype)
        if scalar.shape != ():
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        if scalar == 0 and self.flags.c_contiguous:
            self.data.memset_async(0, self.nbytes, self.fake.stream)
        else:
            self.fake.launch("cupy_fill", 0.0, lambda: self.host.fill(scalar[()]))

    @property
    def data(self) -> Any:
        """The pointer to its memory."""
        raise AssertionError("told by the class that knows memory")

    # Arithmetic: every operator is a ufunc

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **more: Any) -> Any:
        """NumPy's function is CuPy's of that name, which takes no array of NumPy."""
        assert method == "__call__"
        return getattr(self.fake, ufunc.__name__)(*given, **more)

    def all(self) -> Any:
        return self.fake.all(self)

    def sum(self, **how: Any) -> Any:
        return self.fake.sum(self, **how)

    def mean(self, **how: Any) -> Any:
        return self.fake.mean(self, **how)

    def max(self, **how: Any) -> Any:
        return self.fake.max(self, **how)

    def __add__(self, other: Any) -> Any:
        return self.fake.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return self.fake.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return self.fake.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.fake.subtract(other, self)

    def __mul__(self, other: Any) -> Any:
        return self.fake.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.fake.multiply(other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.fake.divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.fake.divide(other, self)

    def __iadd__(self, other: Any) -> Any:
        return self.fake.add(self, other, self)

    def __isub__(self, other: Any) -> Any:
        return self.fake.subtract(self, other, self)

    def __imul__(self, other: Any) -> Any:
        return self.fake.multiply(self, other, self)

    def __itruediv__(self, other: Any) -> Any:
        return self.fake.divide(self, other, self)

    def __pow__(self, other: Any) -> Any:
        return self.fake.power(self, other)

    def __and__(self, other: Any) -> Any:
        return self.fake.bitwise_and(self, other)

    def __ior__(self, other: Any) -> Any:
        return self.fake.bitwise_or(self, other, self)

    def __invert__(self) -> Any:
        return self.fake.invert(self)

    def __eq__(self, other: object) -> Any:
        return self.fake.equal(self, other)

    def __ne__(self, other: object) -> Any:
        return self.fake.not_equal(self, other)

    __hash__ = None  # type: ignore[assignment]


def _hosts(index: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x.host if isinstance(x, DeviceArray) else x for x in index)
