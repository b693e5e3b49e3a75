"""cuSPARSE's product of a CSR matrix and a dense one through its generic C interface, row-major."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.errors import Unavailable
from kernels.libs import cuda
from kernels.libs.cublas import by_properties, prepared, refused
from kernels.provider import Provider

N = 0  # CUSPARSE_OPERATION_NON_TRANSPOSE
INDEX_32, BASE_ZERO = 2, 0  # of row pointers and columns: CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO
ROW_MAJOR = 2  # CUSPARSE_ORDER_ROW
FP32 = 0  # CUDA_R_32F, of all operands and of the sums
# cusparseSpMMAlg_t of CSR. Each call repeats the analysis that cusparseSpMM_preprocess could do once for the first and
# the third.
ALGORITHMS = {"default": 0, "alg1": 4, "alg2": 6, "alg3": 12}
REFUSALS = (2, 10, 11)  # CUSPARSE_STATUS_ALLOC_FAILED, _NOT_SUPPORTED, _INSUFFICIENT_RESOURCES
KERNELS = 4  # most kernels of one call, a guess: distribution of rows, product, sum of parts
INT, LONG, POINTER, SIZE, FLOAT = ctypes.c_int, ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_float
PLACEHOLDER = 0x100  # an address that is required and not read


@dataclass(frozen=True)
class Handle:
    """A cuSPARSE handle of this process, on one stream; destroyed with the object."""

    api: Any
    handle: ctypes.c_void_p

    def check(self, name: str, status: int) -> None:
        """Raise Unavailable for an unsupported call or too little memory, LaunchError for other failures."""
        if status:
            error = refused(self.api.cusparseGetErrorString, name, status)
            raise Unavailable(str(error)) if status in REFUSALS else error


@dataclass(frozen=True)
class Csr:
    """An m×k matrix in CSR on the device; destroyed with the object."""

    descriptor: ctypes.c_void_p
    m: int
    k: int


def open_handle(stream: int, library: Any = None) -> Handle:
    """Open a handle on `stream`. Raises Unavailable, LaunchError."""
    api, handle = library or cuda.load("cusparse"), POINTER()
    if status := api.cusparseCreate(ctypes.byref(handle)):
        raise Unavailable(f"cusparseCreate returned {status}: no usable GPU in this process")
    on = Handle(api, handle)
    weakref.finalize(on, api.cusparseDestroy, handle).atexit = False  # then the context may be gone
    on.check("cusparseSetStream", api.cusparseSetStream(handle, POINTER(stream)))
    return on


def csr(on: Handle, shape: tuple[int, int], nonzeros: int, places: tuple[int, int, int]) -> Csr:
    """Return a CSR matrix; `places`: addresses of values, columns, row pointers. Raises LaunchError."""
    values, columns, pointers = map(POINTER, places)
    descriptor = POINTER()
    sizes, kinds = map(LONG, (*shape, nonzeros)), map(INT, (INDEX_32, INDEX_32, BASE_ZERO, FP32))
    status = on.api.cusparseCreateCsr(ctypes.byref(descriptor), *sizes, pointers, columns, values, *kinds)
    on.check("cusparseCreateCsr", status)
    matrix = Csr(descriptor, *shape)
    weakref.finalize(matrix, on.api.cusparseDestroySpMat, descriptor).atexit = False
    return matrix


class _Dense:
    """A dense row-major matrix at an address; destroyed with the object."""

    def __init__(self, on: Handle, rows: int, columns: int, place: int) -> None:
        self.descriptor = POINTER()
        sizes, kinds = map(LONG, (rows, columns, columns)), map(INT, (FP32, ROW_MAJOR))
        status = on.api.cusparseCreateDnMat(ctypes.byref(self.descriptor), *sizes, POINTER(place), *kinds)
        on.check("cusparseCreateDnMat", status)
        weakref.finalize(self, on.api.cusparseDestroyDnMat, self.descriptor).atexit = False


def _words(on: Handle, algorithm: str, a: Csr, b: _Dense, c: _Dense) -> tuple[tuple[Any, ...], object]:
    """Return the arguments of a product and of its work-area query, and the objects to keep alive."""
    alpha, beta = FLOAT(1.0), FLOAT(0.0)
    operands = (ctypes.byref(alpha), a.descriptor, b.descriptor, ctypes.byref(beta), c.descriptor)
    words = (on.handle, INT(N), INT(N), *operands, INT(FP32), INT(ALGORITHMS[algorithm]))
    return words, (alpha, beta, a, b, c)


def area(on: Handle, algorithm: str, a: Csr, n: int) -> int:
    """Return the bytes of a product's work area for n columns of B. Raises LaunchError, Unavailable."""
    nbytes = SIZE()
    operands = _Dense(on, a.k, n, PLACEHOLDER), _Dense(on, a.m, n, PLACEHOLDER)
    words, _keep = _words(on, algorithm, a, *operands)
    on.check("cusparseSpMM_bufferSize", on.api.cusparseSpMM_bufferSize(*words, ctypes.byref(nbytes)))
    return nbytes.value


def product(on: Handle, algorithm: str, a: Csr, n: int, b: int, c: int, work: int) -> Callable[[], None]:
    """Return a call of C = A·B with B k×n and C m×n at these addresses. Raises LaunchError.

    `work` is the address of `area` bytes, which successive calls may share."""
    words, keep = _words(on, algorithm, a, _Dense(on, a.k, n, b), _Dense(on, a.m, n, c))
    return prepared(on.api.cusparseSpMM, (*words, POINTER(work)), "cusparseSpMM", on.check, (on, keep))


def kernel() -> tuple[str | None, str | None]:
    """Return cuSPARSE's version, read without a handle, and no instruction set."""
    return by_properties("cuSPARSE", cuda.load("cusparse").cusparseGetProperty), None


CUSPARSE = Provider("cusparse", "cuda", cuda.libraries_missing, kernel)
