"""cuBLAS in NumPy behind the names of its C interface: column-major products on host memory.

Arguments must have the very C types that the header gives them (`typed`). A product reads alpha and beta when
it is called and does its work when the stream comes to it: `enqueue` says when that is.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
from collections.abc import Callable
from ctypes import c_int, c_longlong, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

Enqueue = Callable[[Callable[[], None], "int | None"], None]
Reach = Callable[[int, int], None]
if TYPE_CHECKING:
    REF: TypeAlias = Any
else:
    REF = type(ctypes.byref(c_int()))  # the address of something of the host
ALIGNED, INVALID = 256, 7  # bytes, of a workspace; CUBLAS_STATUS_INVALID_VALUE
FORMS = {0: np.float32, 2: np.float16, 4: np.complex64, 14: np.uint16}  # cudaDataType; of bfloat16 its bits
COMPUTES = {(0, 68), (0, 69), (0, 77), (2, 68), (14, 68)}  # which cublasComputeType_t goes with which type here


def typed(method: Callable[..., int]) -> Callable[..., int]:
    """Refuses arguments that are not of the C types that the method's parameters name."""
    wanted = [x.annotation for x in inspect.signature(method, eval_str=True).parameters.values()][1:]

    @functools.wraps(method)
    def checked(self: Any, *arguments: Any) -> int:
        assert [type(x) for x in arguments] == wanted
        return method(self, *arguments)

    return checked


class Text:
    """A function that answers bytes, as ctypes gives them."""

    restype: Any = None

    def __call__(self, status: Any) -> bytes:
        return f"CUBLAS_STATUS_{status.value}".encode()


def at_once(step: Callable[[], None], stream: int | None) -> None:
    step()


def anywhere(start: int, nbytes: int) -> None:
    pass


def array(reach: Reach, place: c_void_p, kind: Any, shape: tuple[int, ...]) -> np.ndarray:
    """What lies at an address, which must be in the device's memory."""
    nbytes = int(np.prod(shape)) * np.dtype(kind).itemsize
    reach(place.value or 0, nbytes)
    raw = (ctypes.c_uint8 * nbytes).from_address(place.value or 0)
    found: np.ndarray = np.ctypeslib.as_array(raw).view(kind).reshape(shape)
    return found


class Library:
    """Column-major products in NumPy behind cuBLAS's names; `status` is what the next call answers.

    `enqueue` is given the work of a call and the address of its handle's stream, `reach` where each matrix
    lies and its bytes. `workspace` is the address of the one that it was given and has, `computes` the
    cublasComputeType_t of each product that had one said, `handles` how many were made.
    """

    def __init__(self, created: int = 0, enqueue: Enqueue = at_once, reach: Reach = anywhere) -> None:
        self.created, self.enqueue, self.reach = created, enqueue, reach
        self.status = 0
        self.stream: int | None = None
        self.workspace: int | None = None
        self.handles = 0
        self.computes: list[int] = []
        self.journal: list[str] = []
        self.cublasGetStatusString = Text()

    def run(self, step: Callable[[], None]) -> None:
        self.enqueue(step, self.stream)

    @typed
    def cublasCreate_v2(self, handle: REF) -> int:
        self.handles += 1
        return self.created

    @typed
    def cublasGetVersion_v2(self, handle: c_void_p, version: REF) -> int:
        version._obj.value = 130100
        return 0

    @typed
    def cublasGetProperty(self, type: c_int, value: REF) -> int:  # noqa: A002
        value._obj.value = (13, 1, 0)[type.value]
        return 0

    @typed
    def cublasSetStream_v2(self, handle: c_void_p, streamId: c_void_p) -> int:
        self.stream, self.workspace = streamId.value, None  # its own again
        self.journal.append(f"stream {streamId.value}")
        return 0

    @typed
    def cublasSetWorkspace_v2(self, handle: c_void_p, workspace: c_void_p, workspaceSizeInBytes: c_size_t) -> int:
        self.journal.append(f"workspace {workspace.value} {workspaceSizeInBytes.value}")
        if workspace.value is None or workspace.value % ALIGNED:
            return INVALID
        self.workspace = workspace.value
        return 0

    @typed
    def cublasSetMathMode(self, handle: c_void_p, mode: c_int) -> int:
        self.journal.append(f"math {mode.value}")
        return self.status

    @typed
    def cublasSgemm_v2(
        self,
        handle: c_void_p,
        transa: c_int,
        transb: c_int,
        m: c_int,
        n: c_int,
        k: c_int,
        alpha: REF,
        A: c_void_p,
        lda: c_int,
        B: c_void_p,
        ldb: c_int,
        beta: REF,
        C: c_void_p,
        ldc: c_int,
    ) -> int:
        left = stored(self.reach, A, 0, lda, transa, m, k)
        right = stored(self.reach, B, 0, ldb, transb, k, n)
        out = stored(self.reach, C, 0, ldc, c_int(0), m, n)
        self.run(product(68, 0, alpha, left, right, beta, out))
        return self.status

    @typed
    def cublasGemmEx(
        self,
        handle: c_void_p,
        transa: c_int,
        transb: c_int,
        m: c_int,
        n: c_int,
        k: c_int,
        alpha: REF,
        A: c_void_p,
        Atype: c_int,
        lda: c_int,
        B: c_void_p,
        Btype: c_int,
        ldb: c_int,
        beta: REF,
        C: c_void_p,
        Ctype: c_int,
        ldc: c_int,
        computeType: c_int,
        algo: c_int,
    ) -> int:
        assert Atype.value == Btype.value == Ctype.value
        assert algo.value == -1
        left = stored(self.reach, A, Atype.value, lda, transa, m, k)
        right = stored(self.reach, B, Btype.value, ldb, transb, k, n)
        out = stored(self.reach, C, Ctype.value, ldc, c_int(0), m, n)
        self.computes.append(computeType.value)
        self.run(product(computeType.value, Ctype.value, alpha, left, right, beta, out))
        return self.status

    @typed
    def cublasSgemmStridedBatched(
        self,
        handle: c_void_p,
        transa: c_int,
        transb: c_int,
        m: c_int,
        n: c_int,
        k: c_int,
        alpha: REF,
        A: c_void_p,
        lda: c_int,
        strideA: c_longlong,
        B: c_void_p,
        ldb: c_int,
        strideB: c_longlong,
        beta: REF,
        C: c_void_p,
        ldc: c_int,
        strideC: c_longlong,
        batchCount: c_int,
    ) -> int:
        for i in range(batchCount.value):
            a, b, c = (_after(x, 4, i * by.value) for x, by in ((A, strideA), (B, strideB), (C, strideC)))
            self.cublasSgemm_v2(handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
        return self.status

    @typed
    def cublasCgemmStridedBatched(
        self,
        handle: c_void_p,
        transa: c_int,
        transb: c_int,
        m: c_int,
        n: c_int,
        k: c_int,
        alpha: REF,
        A: c_void_p,
        lda: c_int,
        strideA: c_longlong,
        B: c_void_p,
        ldb: c_int,
        strideB: c_longlong,
        beta: REF,
        C: c_void_p,
        ldc: c_int,
        strideC: c_longlong,
        batchCount: c_int,
    ) -> int:
        assert (list(alpha._obj), list(beta._obj)) == ([1.0, 0.0], [0.0, 0.0])
        for i in range(batchCount.value):
            left, right, out = (
                columns(self.reach, _after(x, 8, i * by.value), 4, ld.value, rows.value, cols.value)
                for x, by, ld, rows, cols in (
                    (A, strideA, lda, *((k, m) if transa.value else (m, k))),
                    (B, strideB, ldb, *((n, k) if transb.value else (k, n))),
                    (C, strideC, ldc, m, n),
                )
            )
            assert transa.value in (0, 2) and transb.value in (0, 2)
            self.run(functools.partial(_complex, left, transa.value == 2, right, transb.value == 2, out))
        return self.status

    @typed
    def cublasSgeam(
        self,
        handle: c_void_p,
        transa: c_int,
        transb: c_int,
        m: c_int,
        n: c_int,
        alpha: REF,
        A: c_void_p,
        lda: c_int,
        beta: REF,
        B: c_void_p,
        ldb: c_int,
        C: c_void_p,
        ldc: c_int,
    ) -> int:
        assert (transb.value, alpha._obj.value, beta._obj.value) == (0, 1.0, 0.0)
        out, source = (stored(self.reach, C, 0, ldc, c_int(0), m, n), stored(self.reach, A, 0, lda, transa, m, n))
        self.run(functools.partial(np.copyto, out, source))
        return self.status


def _after(place: c_void_p, size: int, elements: int) -> c_void_p:
    return c_void_p((place.value or 0) + size * elements)


def _complex(left: np.ndarray, turned: bool, right: np.ndarray, other: bool, out: np.ndarray) -> None:
    factors = (x.T.conj() if t else x for x, t in ((left, turned), (right, other)))
    first, second = (x.astype(np.complex128) for x in factors)
    out[...] = first @ second


def columns(reach: Reach, place: Any, form: int, ld: int, rows: int, cols: int) -> np.ndarray:
    """The column-major matrix of a cudaDataType at an address."""
    assert ld >= rows
    kind = np.dtype(FORMS[form])
    reach(place.value, kind.itemsize * (ld * (cols - 1) + rows))
    raw = (ctypes.c_uint8 * (kind.itemsize * ld * cols)).from_address(place.value)
    found: np.ndarray = np.ctypeslib.as_array(raw).view(kind).reshape(cols, ld).T[:rows]
    return found


def stored(reach: Reach, place: Any, form: int, ld: Any, trans: Any, rows: Any, cols: Any) -> np.ndarray:
    """op(X), rows×cols, as a view of what lies at an address."""
    assert trans.value in (0, 1)
    if trans.value:
        return columns(reach, place, form, ld.value, cols.value, rows.value).T
    return columns(reach, place, form, ld.value, rows.value, cols.value)


def product(
    compute: int, form: int, alpha: Any, left: np.ndarray, right: np.ndarray, beta: Any, out: np.ndarray
) -> Callable[[], None]:
    """The work of a call; alpha and beta are read now, as the library does, and may go away."""
    assert (form, compute) in COMPUTES
    return functools.partial(multiply, compute, alpha._obj.value, left, right, beta._obj.value, out)


def multiply(compute: int, alpha: float, left: np.ndarray, right: np.ndarray, beta: float, out: np.ndarray) -> None:
    """What the library does with a product: inputs cut to TF32 where it is asked for, the result rounded."""
    values = [widened(x) for x in (left, right)]
    if compute == 77:
        values = [(np.ascontiguousarray(x).view(np.uint32) & 0xFFFFE000).view(np.float32) for x in values]
    with np.errstate(over="ignore", invalid="ignore"):  # of what is infinite already, or becomes so
        result = alpha * (values[0].astype("f8") @ values[1])
        if beta:
            result += beta * widened(out)
    out[...] = narrowed(result, out.dtype)


def widened(x: np.ndarray) -> np.ndarray:
    """float32 of any of the forms."""
    return (x.astype(np.uint32) << 16).view(np.float32) if x.dtype == np.uint16 else x.astype(np.float32)


def narrowed(x: np.ndarray, kind: Any) -> np.ndarray:
    """The nearest of a form, bfloat16 as its bits; ties to even."""
    if kind != np.uint16:
        with np.errstate(over="ignore"):  # it becomes infinite
            return x.astype(kind)
    bits = np.ascontiguousarray(x.astype(np.float32)).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
