"""Rungs that pass through the interpreter: a Python loop calls a binding, which calls the kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from kernels.launch import Launch
from kernels.libs import cffi as cffi_library
from kernels.libs import numba as numba_library
from kernels.libs import openblas
from kernels.ops.launch import native
from kernels.ops.launch.problem import Calls

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.problem import Array

Call: TypeAlias = "tuple[Callable[..., object], tuple[Any, ...]]"
N, ROW_MAJOR, NO_TRANS = 8, 101, 111


def chained(function: Callable[..., object], arguments: Sequence[Any], chain: int, kernels: int = 0) -> Launch:
    """`chain` calls in a Python loop, each of so many kernels of a GPU. The arguments are named: unpacking a tuple is
    a cost of its own."""
    if len(arguments) == 1:
        (x,) = arguments

        def run() -> None:
            for _ in repeat(None, chain):
                function(x)

    elif len(arguments) == 3:
        a, b, c = arguments

        def run() -> None:
            for _ in repeat(None, chain):
                function(a, b, c)

    else:

        def run() -> None:
            for _ in repeat(None, chain):
                function(*arguments)

    return Launch(run, uses=chain, kernels=chain * kernels)


def rung(call: Callable[[Calls], Callable[[Sequence[Array]], Call]]) -> Callable[[Calls, object, object], Bind]:
    """A prepare from `call(problem)(buffers)`, which gives a function and what it is called with."""

    def prepare(problem: Calls, device: object, setting: object) -> Bind:
        parts_of = call(problem)
        return lambda buffers: chained(*parts_of(buffers), problem.chain)

    return prepare


@rung
def python(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    def nothing(x: Array) -> None:
        pass

    return lambda buffers: (nothing, tuple(buffers))


def nothing(problem: Calls, device: object, setting: object) -> Bind:
    """The harness alone: the Python function of a launch, its loop without a turn."""

    def bind(buffers: Sequence[Array]) -> Launch:
        def run() -> None:
            for _ in repeat(None, 0):
                pass

        return Launch(run)

    return bind


@rung
def ctypes_prepared(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    """No argtypes, and arguments that are C values already: nothing is converted."""
    function = ctypes.CFUNCTYPE(None)(native.kernel(problem))
    return lambda buffers: (function, tuple(ctypes.c_void_p(x.ctypes.data) for x in buffers))


@rung
def ctypes_convert(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    """Addresses as Python numbers, made pointers by argtypes at each call."""
    function: Any = ctypes.CFUNCTYPE(None)(native.kernel(problem))
    function.argtypes = [ctypes.c_void_p] * len(problem.operands())
    return lambda buffers: (function, tuple(x.ctypes.data for x in buffers))


@rung
def ctypes_openblas(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    """cblas_sgemm with its fourteen arguments, all prepared."""
    blas = openblas.load("numpy")
    function = ctypes.CFUNCTYPE(None)(blas.sgemm)
    whole = ctypes.c_int64 if blas.wide else ctypes.c_int
    how = [ctypes.c_int(x) for x in (ROW_MAJOR, NO_TRANS, NO_TRANS)]
    n, one, zero = whole(N), ctypes.c_float(1), ctypes.c_float(0)

    def call(buffers: Sequence[Array]) -> Call:
        a, b, c = (ctypes.c_void_p(x.ctypes.data) for x in buffers)
        return function, (*how, n, n, n, one, a, n, b, n, zero, c, n)

    return call


@rung
def cffi_abi(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    """ABI mode: a function pointer called through libffi, its arguments prepared."""
    ffi = cffi_library.load().FFI()
    pointers = ", ".join(["void *"] * len(problem.operands()))
    function = ffi.cast(f"void(*)({pointers})", native.kernel(problem))
    return lambda buffers: (function, tuple(ffi.cast("void *", x.ctypes.data) for x in buffers))


@rung
def numpy_matmul(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    import numpy as np

    return lambda buffers: (np.matmul, tuple(buffers))


@rung
def scipy_sgemm(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    """Its arrays are column-major: Cᵀ = Bᵀ·Aᵀ, without a copy, into the C that is handed in."""
    from scipy.linalg.blas import sgemm

    return lambda buffers: (sgemm, (1.0, buffers[1].T, buffers[0].T, 0.0, buffers[2].T, 0, 0, 1))


@rung
def numba_njit(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    """The C function's loops, compiled for exactly these arrays before the first call."""
    njit = numba_library.load().njit

    def gemm(a: Array, b: Array, c: Array) -> None:
        for i in range(N):
            for j in range(N):
                c[i, j] = 0
            for k in range(N):
                for j in range(N):
                    c[i, j] += a[i, k] * b[k, j]

    def empty(x: Array) -> None:
        pass

    body = {"gemm": gemm, "empty": empty}[problem.kernel]
    arrays = ", ".join(["float32[:, ::1]"] * len(problem.operands()))
    compiled = njit(f"void({arrays})")(body)
    return lambda buffers: (compiled, tuple(buffers))
