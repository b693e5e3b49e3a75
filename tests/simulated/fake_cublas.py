"""cuBLAS and cuBLASLt in NumPy: column-major products on host memory.

A product reads alpha and beta when it is called and does its work when the stream comes to it.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.simulated.fake_c import CLibrary, Reach

ALIGNED, INVALID, NOT_SUPPORTED = 256, 7, 15  # bytes, of a workspace; two of cublasStatus_t
FORMS = {0: np.float32, 2: np.float16, 4: np.complex64, 14: np.uint16}  # cudaDataType; of bfloat16 its bits
COMPUTES = {(0, 68), (0, 69), (0, 77), (2, 68), (14, 68)}  # which cublasComputeType_t goes with which type here
OFFERS = ((21, 4096, 0, 0.5), (7, 0, 0, 1.25), (40, 0, 15, 0.0), (66, 1 << 20, 0, 3.0))  # id, bytes, state, waves


class Cublas(CLibrary):
    """cuBLAS. `workspace` is the address of the one it was given and has, `computes` the types of products."""

    prefix = "cublas"

    def __init__(self, *how: Any, **more: Any) -> None:
        super().__init__(*how, **more)
        self.stream: int | None = None
        self.workspace: int | None = None
        self.computes: list[int] = []  # cublasComputeType_t of each product that had one

    def run(self, step: Callable[[], None]) -> None:
        self.enqueue(step, self.stream)

    def GetStatusString(self, x: Any) -> bytes:
        return f"CUBLAS_STATUS_{x.status}".encode()

    def GetVersion_v2(self, x: Any) -> None:
        x.version.value = 130100

    def GetProperty(self, x: Any) -> None:
        x.value.value = (13, 1, 0)[x.type]

    def SetStream_v2(self, x: Any) -> None:
        self.stream, self.workspace = x.streamId, None  # the library's workspace again
        self.journal.append(f"stream {x.streamId}")

    def SetWorkspace_v2(self, x: Any) -> int:
        self.journal.append(f"workspace {x.workspace} {x.workspaceSizeInBytes}")
        if not x.workspace or x.workspace % ALIGNED:
            return INVALID
        self.workspace = x.workspace
        return 0

    def SetMathMode(self, x: Any) -> None:
        self.journal.append(f"math {x.mode}")

    def Sgemm_v2(self, x: Any) -> None:
        self.run(product(68, 0, x.alpha.value, *self._operands(x, 0), x.beta.value))

    def GemmEx(self, x: Any) -> None:
        assert x.Atype == x.Btype == x.Ctype and x.algo == -1
        self.computes.append(x.computeType)
        self.run(product(x.computeType, x.Ctype, x.alpha.value, *self._operands(x, x.Ctype), x.beta.value))

    def SgemmStridedBatched(self, x: Any) -> None:
        for part in _parts(x, 4):
            self.Sgemm_v2(part)

    def CgemmStridedBatched(self, x: Any) -> None:
        assert (list(x.alpha), list(x.beta)) == ([1.0, 0.0], [0.0, 0.0])
        assert x.transa in (0, 2) and x.transb in (0, 2)
        for part in _parts(x, 8):
            part.transa, part.transb = x.transa // 2, x.transb // 2
            left, right, out = self._operands(part, 4)
            self.run(functools.partial(_complex, left, part.transa, right, part.transb, out))

    def Sgeam(self, x: Any) -> None:
        assert (x.transb, x.alpha.value, x.beta.value) == (0, 1.0, 0.0)
        out, source = (
            stored(self.reach, x.C, 0, x.ldc, 0, x.m, x.n),
            stored(self.reach, x.A, 0, x.lda, x.transa, x.m, x.n),
        )
        self.run(functools.partial(np.copyto, out, source))

    def _operands(self, x: Any, form: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return (
            stored(self.reach, x.A, form, x.lda, x.transa, x.m, x.k),
            stored(self.reach, x.B, form, x.ldb, x.transb, x.k, x.n),
            stored(self.reach, x.C, form, x.ldc, 0, x.m, x.n),
        )


def _parts(x: Any, size: int) -> list[Any]:
    """The products of a batch whose elements have `size` bytes."""
    places = (
        {name: getattr(x, name) + size * i * getattr(x, f"stride{name}") for name in "ABC"} for i in range(x.batchCount)
    )
    return [SimpleNamespace(**{**vars(x), **place}) for place in places]


def _complex(left: np.ndarray, turned: bool, right: np.ndarray, other: bool, out: np.ndarray) -> None:
    first, second = (
        (x.conj() if conjugate else x).astype(np.complex128) for x, conjugate in ((left, turned), (right, other))
    )
    out[...] = first @ second


class CublasLt(CLibrary):
    """cuBLASLt. `refused` are algorithms that it learns at a launch not to have, `algorithm` the one launched last."""

    prefix = "cublasLt"

    def __init__(
        self,
        *how: Any,
        offers: tuple[tuple[int, int, int, float], ...] = OFFERS,
        refused: Collection[int] = (),
        **more: Any,
    ) -> None:
        super().__init__(*how, **more)
        self.offers, self.refused = offers, refused
        self.algorithm = 0
        self.computes: list[int] = []  # cublasComputeType_t of each launch

    GetStatusString = Cublas.GetStatusString

    def GetVersion(self, x: Any) -> int:
        return 130101

    def MatmulDescCreate(self, x: Any) -> None:
        assert x.scaleType == 0
        self.create(x.matmulDesc, compute=x.computeType, attributes={})

    def MatrixLayoutCreate(self, x: Any) -> int:
        count = sum(hasattr(x, "ld") for x in self.alive.values())
        if status := self.status.get(f"MatrixLayoutCreate{count}"):  # the third of a product can fail
            return status
        self.create(x.matLayout, form=x.type, rows=x.rows, cols=x.cols, ld=x.ld)
        return 0

    def MatmulPreferenceCreate(self, x: Any) -> None:
        self.create(x.pref, attributes={})

    def MatmulPreferenceDestroy(self, x: Any) -> None:
        self.journal.append(self.alive.pop(x.pref).attributes)

    def MatmulDescSetAttribute(self, x: Any) -> None:
        """A test of signatures holds the type and the size of `buf` to NVIDIA's."""
        descriptor, attribute, value, size = vars(x).values()
        assert size == ctypes.sizeof(value)
        self.alive[descriptor].attributes[attribute] = value.value

    MatmulPreferenceSetAttribute = MatmulDescSetAttribute

    def MatmulAlgoGetHeuristic(self, x: Any) -> int:
        _, _, *layouts = self._shapes(x.operationDesc, x.Adesc, x.Bdesc, x.Cdesc, x.Ddesc)
        if any(layout.form in (2, 14) and layout.ld % 2 for layout in layouts):  # rows at no multiple of 4 bytes
            return NOT_SUPPORTED
        most = self.alive[x.preference].attributes[1]
        fitting = [offer for offer in self.offers if offer[1] <= most][: x.requestedAlgoCount]
        # In bytes: the layout of the results is the library's, not the binding's.
        raw = b"".join(
            struct.pack("=8QQif4i", *range(number, number + 8), size, state, waves, 9, 9, 9, 9)
            for number, size, state, waves in fitting
        )
        assert x.requestedAlgoCount * 96 == ctypes.sizeof(x.heuristicResultsArray)
        ctypes.memmove(x.heuristicResultsArray, raw, len(raw))
        x.returnAlgoCount.value = len(fitting)
        return 0

    def Matmul(self, x: Any) -> int:
        assert x.lightHandle in self.alive and (x.C, x.Cdesc) == (x.D, x.Ddesc)
        transa, transb, a, b, c = self._shapes(x.computeDesc, x.Adesc, x.Bdesc, x.Cdesc, x.Ddesc)
        depth = a.rows if transa else a.cols
        operands = (
            stored(self.reach, x.A, a.form, a.ld, transa, c.rows, depth),
            stored(self.reach, x.B, b.form, b.ld, transb, depth, c.cols),
            stored(self.reach, x.D, c.form, c.ld, 0, c.rows, c.cols),
        )
        compute = self.alive[x.computeDesc].compute
        step = product(compute, c.form, x.alpha.value, *operands, x.beta.value)
        self.reach(x.workspace, x.workspaceSizeInBytes)
        self.algorithm = x.algo[0]
        if self.algorithm in self.refused:
            return NOT_SUPPORTED
        self.computes.append(compute)
        self.enqueue(step, x.stream)
        self.journal.append((self.algorithm, x.workspace, x.workspaceSizeInBytes, x.stream))
        return 0

    def _shapes(self, operation: int, *layouts: int) -> tuple[int, int, Any, Any, Any]:
        """The flags, and the layouts of A, B and C, which fit each other."""
        flags = self.alive[operation].attributes
        a, b, c, d = (self.alive[x] for x in layouts)
        left, right = (a.rows, a.cols)[:: -1 if flags[3] else 1], (b.rows, b.cols)[:: -1 if flags[4] else 1]
        assert (left[1], (left[0], right[1])) == (right[0], (c.rows, c.cols))
        assert a.form == b.form == c.form == d.form
        return flags[3], flags[4], a, b, c


def stored(reach: Reach, place: int, form: int, ld: int, trans: int, rows: int, cols: int) -> np.ndarray:
    """Return op(X), rows×cols, as a view of the column-major matrix of a cudaDataType at an address."""
    assert trans in (0, 1)
    if trans:
        return stored(reach, place, form, ld, 0, cols, rows).T
    assert ld >= rows
    kind = np.dtype(FORMS[form])
    reach(place, kind.itemsize * (ld * (cols - 1) + rows))
    raw = (ctypes.c_uint8 * (kind.itemsize * ld * cols)).from_address(place)
    there: np.ndarray = np.ctypeslib.as_array(raw).view(kind).reshape(cols, ld).T[:rows]
    return there


def product(
    compute: int, form: int, alpha: float, left: np.ndarray, right: np.ndarray, out: np.ndarray, beta: float
) -> Callable[[], None]:
    """Return the work of a product: inputs cut to TF32 where it is asked for, the result rounded."""
    assert (form, compute) in COMPUTES

    def multiply() -> None:
        values = [widened(x) for x in (left, right)]
        if compute == 77:
            values = [(np.ascontiguousarray(x).view(np.uint32) & 0xFFFFE000).view(np.float32) for x in values]
        with np.errstate(over="ignore", invalid="ignore"):  # of what is infinite already, or becomes so
            result = alpha * (values[0].astype("f8") @ values[1])
            if beta:
                result += beta * widened(out)
        out[...] = narrowed(result, out.dtype)

    return multiply


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
