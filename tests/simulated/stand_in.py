"""CuPy, cuBLAS, scikit-cuda and cupti-python in NumPy: as much of them as the probes use, to run these without a GPU.

What they check is that a probe asks in the right order and understands the answers; not one is a GPU's.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import math
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np


class Array(np.ndarray):
    """Host memory that says where it lies."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)


class Event:
    def record(self, stream: object) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        pass


class Stream:
    """Work is done at once, that which is captured, too."""

    ptr = 7
    null: Stream

    def __init__(self, non_blocking: bool = False) -> None:
        self.graph = SimpleNamespace(upload=lambda stream: None, launch=lambda stream: None)

    def synchronize(self) -> None: ...

    def begin_capture(self) -> None: ...

    def end_capture(self) -> Any:
        return self.graph


Stream.null = Stream()


def own(array: Any) -> Array:
    return np.array(array).view(Array)


class Runtime:
    """Transfers among host memory."""

    hostAllocDefault, hostAllocWriteCombined = 0, 4

    def __init__(self) -> None:
        self.blocks: dict[int, Any] = {}
        self.registered: set[int] = set()

    def hostAlloc(self, nbytes: int, flag: int) -> int:
        block = np.zeros(nbytes, np.uint8)
        self.blocks[block.ctypes.data] = block
        return int(block.ctypes.data)

    def freeHost(self, place: int) -> None:
        del self.blocks[place]

    def hostRegister(self, place: int, nbytes: int, flag: int) -> None:
        self.registered.add(place)

    def hostUnregister(self, place: int) -> None:
        self.registered.remove(place)

    def memcpyAsync(self, to: int, what: int, nbytes: int, kind: int, stream: int) -> None:
        ctypes.memmove(to, what, nbytes)

    def deviceSynchronize(self) -> None: ...


def cupy() -> Any:
    """The module."""
    made: Any = module("cupy")
    made.uint8, made.float32, made.nan, made.asnumpy = np.uint8, np.float32, np.nan, np.array
    made.asarray, made.ones = own, lambda *given: own(np.ones(*given))
    made.empty = lambda *given: own(np.zeros(*given))
    made.ElementwiseKernel = lambda *words: lambda x, y: np.add(x, 1, out=y)
    elapsed = lambda a, b: (b.at - a.at) * 1e3  # noqa: E731
    made.cuda = SimpleNamespace(runtime=Runtime(), Stream=Stream, Event=Event, get_elapsed_time=elapsed)
    return made


def module(name: str) -> ModuleType:
    made = ModuleType(name)
    made.__spec__ = importlib.machinery.ModuleSpec(name, None)
    return made


def at(place: int, dims: tuple[int, ...]) -> np.ndarray:
    """The single-precision array at an address."""
    floats = ctypes.c_float * math.prod(dims)
    return np.ctypeslib.as_array(floats.from_address(place)).reshape(dims)


class Blas:
    """libcublas: column-major products and transpositions."""

    def __getattr__(self, name: str) -> Any:
        return lambda *given: 0  # the handle and its settings

    def cublasSgemm_v2(self, handle: Any, ta: Any, tb: Any, m: Any, n: Any, k: Any, *rest: Any) -> int:
        _, a, lda, b, ldb, _, c, ldc = rest
        left, right = (
            at(x.value, (k.value if t.value == own else other.value, ld.value))
            for x, ld, t, own, other in ((a, lda, ta, 0, m), (b, ldb, tb, 1, n))
        )
        left, right = (left if ta.value else left.T), (right if tb.value else right.T)
        at(c.value, (n.value, ldc.value))[...] = (left @ right).T
        return 0

    def cublasSgeam(self, handle: Any, ta: Any, tb: Any, m: Any, n: Any, one: Any, a: Any, *rest: Any) -> int:
        at(rest[4].value, (n.value, m.value))[...] = at(a.value, (m.value, n.value)).T
        return 0


class Skcuda:
    """The module skcuda.cublas: numbers as they are, flags by letter."""

    def cublasCreate(self) -> int:
        return 1

    def cublasGetVersion(self, handle: int) -> int:
        return 130100

    def cublasSgemm(self, handle: int, ta: str, tb: str, m: int, n: int, k: int, *rest: Any) -> None:
        places = (ctypes.c_float(), *map(ctypes.c_void_p, rest[1:5]), ctypes.c_float(), *map(ctypes.c_void_p, rest[6:]))
        numbers = map(ctypes.c_int, (ta == "t", tb == "t", m, n, k))
        Blas().cublasSgemm_v2(handle, *numbers, *places)

    def cublasSgeam(self, handle: int, ta: str, tb: str, m: int, n: int, one: float, a: int, *rest: Any) -> None:
        assert (ta, tb, rest[0]) == ("t", "n", n)
        at(rest[4], (n, m))[...] = at(a, (m, n)).T


cupti_kernels: list[Any] = []


def cupti() -> Any:
    """The module cupti.cupti; a flush hands over what ran."""
    made: Any = module("cupti.cupti")
    done: list[Any] = []

    def flush(flag: int) -> None:
        done[0](cupti_kernels[:])
        cupti_kernels.clear()

    made.ActivityKind = SimpleNamespace(CONCURRENT_KERNEL=10)
    made.activity_enable = made.activity_disable = lambda kind: None
    made.activity_register_callbacks = lambda requested, completed: done.append(completed)
    made.activity_flush_all = flush
    return made
