"""Calls through Python: a Python loop calls a binding, which calls the kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, TypeAlias

from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs import cffi as cffi_library
from kernels.libs import numba as numba_library
from kernels.libs import openblas
from kernels.libs import torch as torch_library
from kernels.ops.launch import native
from kernels.ops.launch.problem import Calls
from kernels.problem import Array


def eager(problem: Calls, device: object, setting: Any) -> Bind:
    """Prepare torch.mm into c, or zero_() of an empty slice of x: the same path without work."""
    torch = torch_library.on_threads(setting.threads)

    def gemm(buffers: Sequence[Array]) -> Launch:
        a, b, c = (torch.from_numpy(x) for x in buffers)
        product = torch.mm

        def run() -> None:
            for _ in repeat(None, problem.chain):
                product(a, b, out=c)

        return Launch(run, uses=problem.chain)

    def empty(buffers: Sequence[Array]) -> Launch:
        none = torch.from_numpy(buffers[0])[:, :0]
        return chained(torch.Tensor.zero_, (none,), problem.chain)

    return gemm if problem.kernel == "gemm" else empty


def compiled(problem: Calls, device: Any, setting: Any) -> Bind:
    """Prepare torch.compile of one torch.mm; each call checks the guards."""
    torch = torch_library.on_threads(setting.threads)

    def product(a: Any, b: Any, c: Any) -> None:
        torch.mm(a, b, out=c)

    empty = [torch.zeros(x.shape) for x in problem.operands()]
    function = torch_library.compiled(torch, product, lambda call: call(*empty))
    return lambda buffers: chained(function, [torch.from_numpy(x) for x in buffers], problem.chain)


Call: TypeAlias = "tuple[Callable[..., object], tuple[Any, ...]]"
N, ROW_MAJOR, NO_TRANS = 8, 101, 111


def chained(function: Callable[..., object], arguments: Sequence[Any], chain: int, kernels: int = 0) -> Launch:
    """Return a launch of `chain` calls in a Python loop, each of which launches `kernels` GPU kernels.

    The arguments are local names, since unpacking a tuple costs time.
    """
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
    """Return a `prepare` that chains calls of `call(problem)(buffers)`, a (function, arguments) pair."""

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
    """Prepare the empty harness: the Python function of a launch, with a loop of no iterations."""

    def bind(buffers: Sequence[Array]) -> Launch:
        def run() -> None:
            for _ in repeat(None, 0):
                pass

        return Launch(run)

    return bind


@rung
def ctypes_prepared(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    """Return a ctypes function without argtypes and its C arguments, so that calls convert nothing."""
    function = ctypes.CFUNCTYPE(None)(native.kernel(problem))
    return lambda buffers: (function, tuple(ctypes.c_void_p(x.ctypes.data) for x in buffers))


@rung
def ctypes_convert(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    """Return a ctypes function whose argtypes convert Python ints to pointers at each call."""
    function: Any = ctypes.CFUNCTYPE(None)(native.kernel(problem))
    function.argtypes = [ctypes.c_void_p] * len(problem.operands())
    return lambda buffers: (function, tuple(x.ctypes.data for x in buffers))


@rung
def ctypes_openblas(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    """Return cblas_sgemm with its fourteen arguments, converted beforehand."""
    blas = openblas.load("numpy")
    function = ctypes.CFUNCTYPE(None)(blas.sgemm)
    integer = ctypes.c_int64 if blas.wide else ctypes.c_int
    how = [ctypes.c_int(x) for x in (ROW_MAJOR, NO_TRANS, NO_TRANS)]
    n, alpha, beta = integer(N), ctypes.c_float(1), ctypes.c_float(0)

    def call(buffers: Sequence[Array]) -> Call:
        a, b, c = (ctypes.c_void_p(x.ctypes.data) for x in buffers)
        return function, (*how, n, n, n, alpha, a, n, b, n, beta, c, n)

    return call


@rung
def cffi_abi(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    """Return a function pointer in cffi's ABI mode, called through libffi with converted arguments."""
    ffi = cffi_library.load().FFI()
    pointers = ", ".join(["void *"] * len(problem.operands()))
    function = ffi.cast(f"void(*)({pointers})", native.kernel(problem))
    return lambda buffers: (function, tuple(ffi.cast("void *", x.ctypes.data) for x in buffers))


@rung
def numpy_matmul(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    return lambda buffers: (np.matmul, tuple(buffers))


@rung
def scipy_sgemm(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    """Return SciPy's column-major sgemm, which computes Cᵀ = Bᵀ·Aᵀ into C without a copy."""
    from scipy.linalg.blas import sgemm

    return lambda buffers: (sgemm, (1.0, buffers[1].T, buffers[0].T, 0.0, buffers[2].T, 0, 0, 1))


@rung
def numba_njit(problem: Calls) -> Callable[[Sequence[Array]], Call]:
    """Return the C function's loops in Numba, compiled for these arrays before the first call."""
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
