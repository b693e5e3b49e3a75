"""cuBLASLt through its C interface: a product is planned once, then run by a chosen algorithm.

Matrices are column-major, with the element types of kernels/libs/cublas.py."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cublas, cuda
from kernels.libs.cublas import FLOAT, INT, POINTER, T
from kernels.provider import Provider

ALIGNED = 256  # bytes: the library's default assumption; the suite aligns operands to 512
SCALE = 0  # CUDA_R_32F: the type of alpha and beta
TRANSA, TRANSB = 3, 4  # cublasLtMatmulDescAttributes_t, int32_t each
MAX_WORKSPACE = 1  # cublasLtMatmulPreferenceAttributes_t, uint64_t
MIN_ALIGNMENTS = (5, 6, 7, 8)  # the same, of A, B, C and D, uint32_t each
NOT_SUPPORTED = 15  # cublasStatus_t
ALGO = ctypes.c_uint64 * 8  # cublasLtMatmulAlgo_t
SIZE = ctypes.c_size_t


class Offer(ctypes.Structure):
    """Structure cublasLtMatmulHeuristicResult_t: an algorithm that the heuristic offers."""

    _fields_ = (("algo", ALGO), ("workspaceSize", SIZE), ("state", INT), ("wavesCount", FLOAT), ("reserved", INT * 4))


@dataclass(frozen=True)
class Handle:
    """A cuBLASLt handle of this process, with the stream and the workspace of its products."""

    api: Any
    handle: ctypes.c_void_p
    version: str
    stream: int
    workspace: int
    workspace_bytes: int

    def check(self, name: str, status: int) -> None:
        """Raise LaunchError for a status other than success."""
        if status:
            raise cublas.refused(self.api.cublasLtGetStatusString, name, status)


@dataclass(frozen=True, eq=False)
class Descriptors:
    """cuBLASLt's descriptors of a product and of the layouts of A, B and C, freed with this object."""

    operation: ctypes.c_void_p
    a: ctypes.c_void_p
    b: ctypes.c_void_p
    c: ctypes.c_void_p


@dataclass(frozen=True)
class Algorithm:
    """An algorithm that cuBLASLt's heuristic offers for a planned product."""

    product: Descriptors
    data: bytes  # cublasLtMatmulAlgo_t
    workspace: int  # bytes that the algorithm needs
    waves: float  # waves of blocks: at 1.0 the algorithm fills the GPU exactly once


def open_handle(stream: int, workspace_address: int, workspace_bytes: int, library: Any = None) -> Handle:
    """Open a handle on `stream` for the life of the process. Raises Unavailable.

    The workspace is device memory at a multiple of 256; 0 bytes: no workspace."""
    library = library or cuda.load("cublasLt")
    handle = ctypes.c_void_p()
    if status := library.cublasLtCreate(ctypes.byref(handle)):
        raise Unavailable(f"cublasLtCreate returned {status}: no usable GPU in this process")
    number = library.cublasLtGetVersion
    number.restype = SIZE
    version = f"cuBLASLt {cublas.dotted(number())}"
    return Handle(library, handle, version, stream, workspace_address, workspace_bytes)


def beside(classic: cublas.Handle) -> Handle:
    """Return the cached cuBLASLt handle on a cuBLAS handle's stream and workspace. Raises Unavailable."""
    return _handle(cuda.load("cublasLt"), classic.stream, classic.workspace)


@functools.cache
def _handle(library: Any, stream: int, workspace: int) -> Handle:
    return open_handle(stream, workspace, cublas.WORKSPACE, library)


def plan(
    on: Handle,
    dtype: str,
    flags: tuple[int, int],
    mnk: tuple[int, int, int],
    lds: tuple[int, int, int],
    workspace_bytes: int,
    wanted: int,
    aligned: int = ALIGNED,
) -> tuple[Algorithm, ...]:
    """Return up to `wanted` algorithms for C = alpha·op(A)·op(B) + beta·C, the expected fastest first.

    `dtype`: a key of cublas.TYPES; `lds`: leading dimensions of A, B and C in elements. An algorithm needs at most
    `workspace_bytes`, and operands at multiples of `aligned` bytes. Empty if the library has no algorithm. Raises
    LaunchError."""
    product = _described(on, dtype, flags, mnk, lds)
    offers, count = (Offer * wanted)(), INT()
    with ExitStack() as stack:
        preference = _preference(on, stack, workspace_bytes, aligned)
        layouts = (product.operation, product.a, product.b, product.c, product.c)
        answers = (INT(wanted), ctypes.byref(offers), ctypes.byref(count))
        status = on.api.cublasLtMatmulAlgoGetHeuristic(on.handle, *layouts, preference, *answers)
    if status == NOT_SUPPORTED:
        return ()
    on.check("cublasLtMatmulAlgoGetHeuristic", status)
    return tuple(
        Algorithm(product, bytes(x.algo), x.workspaceSize, x.wavesCount)
        for x in offers[: count.value]
        if not x.state  # an entry with a state has no other valid field
    )


def _preference(on: Handle, stack: ExitStack, workspace_bytes: int, aligned: int) -> ctypes.c_void_p:
    """Return the limits on workspace and alignment as a descriptor, which the stack destroys."""
    preference = _created(on, stack, "MatmulPreference")
    _set(on, "MatmulPreference", preference, MAX_WORKSPACE, ctypes.c_uint64(workspace_bytes))
    for attribute in MIN_ALIGNMENTS:
        _set(on, "MatmulPreference", preference, attribute, ctypes.c_uint32(aligned))
    return preference


def matmul(on: Handle, algorithm: Algorithm, scale: tuple[float, float], a: int, b: int, c: int) -> Callable[[], None]:
    """Return a call of the planned product by `algorithm`, in place on C; operands are addresses.

    Raises LaunchError if the handle's workspace is too small."""
    if algorithm.workspace > on.workspace_bytes:
        needs = f"needs {algorithm.workspace} bytes of workspace"
        raise LaunchError(f"the algorithm {needs}, the handle has only {on.workspace_bytes}")
    alpha, beta = FLOAT(scale[0]), FLOAT(scale[1])
    chosen, product = ALGO.from_buffer_copy(algorithm.data), algorithm.product
    inputs = (ctypes.byref(alpha), POINTER(a), product.a, POINTER(b), product.b)
    outputs = (ctypes.byref(beta), POINTER(c), product.c, POINTER(c), product.c)
    room = (POINTER(on.workspace), SIZE(on.workspace_bytes), POINTER(on.stream))
    arguments = (on.handle, product.operation, *inputs, *outputs, ctypes.byref(chosen), *room)
    keep = (alpha, beta, chosen, product)
    return cublas.prepared(on.api.cublasLtMatmul, arguments, "cublasLtMatmul", on.check, keep)


def _described(
    on: Handle, dtype: str, flags: tuple[int, int], mnk: tuple[int, int, int], lds: tuple[int, int, int]
) -> Descriptors:
    """Return the descriptors of a product; on an error all that were created are destroyed."""
    kind, compute = map(INT, cublas.TYPES[dtype])
    m, n, k = mnk
    a = (k, m) if flags[0] == T else (m, k)  # rows, columns as they lie in memory
    b = (n, k) if flags[1] == T else (k, n)
    with ExitStack() as stack:
        operation = _created(on, stack, "MatmulDesc", compute, INT(SCALE))
        for attribute, flag in zip((TRANSA, TRANSB), flags, strict=True):
            _set(on, "MatmulDesc", operation, attribute, ctypes.c_int32(flag))
        layouts = (
            _created(on, stack, "MatrixLayout", kind, *map(ctypes.c_uint64, shape), ctypes.c_int64(ld))
            for shape, ld in zip((a, b, (m, n)), lds, strict=True)
        )
        descriptors = Descriptors(operation, *layouts)
        weakref.finalize(descriptors, stack.pop_all().close)
    return descriptors


def _created(on: Handle, stack: ExitStack, kind: str, *arguments: Any) -> ctypes.c_void_p:
    """Return a new descriptor of type `kind`, such as "MatrixLayout", which the stack destroys."""
    descriptor, name = POINTER(), f"cublasLt{kind}Create"
    on.check(name, getattr(on.api, name)(ctypes.byref(descriptor), *arguments))
    stack.callback(getattr(on.api, f"cublasLt{kind}Destroy"), descriptor)
    return descriptor


def _set(on: Handle, kind: str, descriptor: ctypes.c_void_p, attribute: int, value: Any) -> None:
    """Set one attribute; `value` has exactly the C type that the header declares."""
    name = f"cublasLt{kind}SetAttribute"
    size = SIZE(ctypes.sizeof(value))
    on.check(name, getattr(on.api, name)(descriptor, INT(attribute), ctypes.byref(value), size))


CUBLASLT = Provider("cublas", "cuda", cublas.missing, cublas.kernel)
