"""cuBLASLt in NumPy behind the names of its C interface; it keeps books of its descriptors."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Collection
from ctypes import c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from types import SimpleNamespace
from typing import Any

from tests.simulated.fake_cublas import REF, Enqueue, Reach, Text, anywhere, at_once, product, stored, typed

NOT_SUPPORTED = 15  # CUBLAS_STATUS_NOT_SUPPORTED
OPERATION = {3: c_int32, 4: c_int32}  # the type of each attribute, as the header describes it
PREFERENCE = {1: c_uint64, 5: c_uint32, 6: c_uint32, 7: c_uint32, 8: c_uint32}
OFFERS = ((21, 4096, 0, 0.5), (7, 0, 0, 1.25), (40, 0, 15, 0.0), (66, 1 << 20, 0, 3.0))  # id, bytes, state, waves


class Number:
    """A function that answers a number, as ctypes gives it."""

    restype: Any = None

    def __call__(self) -> int:
        assert self.restype is c_size_t
        return 130101


class Library:
    """cuBLASLt's names over NumPy. `alive` are the descriptors that are not destroyed, by address.

    `refused` are the algorithms of which it learns at a launch that it has them not; `algorithm` is the one that
    is launched, `computes` the cublasComputeType_t of each launch, `handles` how many were made.
    """

    def __init__(
        self,
        created: int = 0,
        offers: tuple[tuple[int, int, int, float], ...] = OFFERS,
        enqueue: Enqueue = at_once,
        reach: Reach = anywhere,
        refused: Collection[int] = (),
    ) -> None:
        self.created, self.offers, self.enqueue, self.reach = created, offers, enqueue, reach
        self.refused = refused
        self.algorithm = self.handles = 0
        self.computes: list[int] = []
        self.alive: dict[Any, SimpleNamespace] = {}
        self.status: dict[str, int] = {}  # what a function answers, where that is no success
        self.journal: list[Any] = []
        self.cublasLtGetStatusString, self.cublasLtGetVersion = Text(), Number()
        self._next = 0x1000

    def _made(self, name: str, place: Any, **fields: Any) -> int:
        if status := self.status.get(name):
            return status
        self._next += 64
        place._obj.value = self._next
        self.alive[self._next] = SimpleNamespace(**fields, attributes={})
        return 0

    def _noted(self, types: dict[int, Any], place: Any, attr: Any, buf: Any, size: Any) -> int:
        assert type(buf._obj) is types[attr.value]
        assert size.value == ctypes.sizeof(buf._obj)
        self.alive[place.value].attributes[attr.value] = buf._obj.value
        return 0

    @typed
    def cublasLtCreate(self, lightHandle: REF) -> int:
        self.handles += 1
        lightHandle._obj.value = 0x77
        return self.created

    @typed
    def cublasLtMatmulDescCreate(self, matmulDesc: REF, computeType: c_int, scaleType: c_int) -> int:
        assert scaleType.value == 0
        return self._made("MatmulDescCreate", matmulDesc, compute=computeType.value)

    @typed
    def cublasLtMatmulDescDestroy(self, matmulDesc: c_void_p) -> int:
        del self.alive[matmulDesc.value]
        return 0

    @typed
    def cublasLtMatmulDescSetAttribute(self, matmulDesc: c_void_p, attr: c_int, buf: REF, sizeInBytes: c_size_t) -> int:
        return self._noted(OPERATION, matmulDesc, attr, buf, sizeInBytes)

    @typed
    def cublasLtMatrixLayoutCreate(
        self,
        matLayout: REF,
        type: c_int,  # noqa: A002
        rows: c_uint64,
        cols: c_uint64,
        ld: c_int64,
    ) -> int:
        # The third of a product can be told to fail.
        count = sum(hasattr(x, "ld") for x in self.alive.values())
        fields = {"form": type.value, "rows": rows.value, "cols": cols.value, "ld": ld}
        return self._made(f"MatrixLayoutCreate{count}", matLayout, **fields)

    @typed
    def cublasLtMatrixLayoutDestroy(self, matLayout: c_void_p) -> int:
        del self.alive[matLayout.value]
        return 0

    @typed
    def cublasLtMatmulPreferenceCreate(self, pref: REF) -> int:
        return self._made("MatmulPreferenceCreate", pref)

    @typed
    def cublasLtMatmulPreferenceDestroy(self, pref: c_void_p) -> int:
        self.journal.append(self.alive.pop(pref.value).attributes)
        return 0

    @typed
    def cublasLtMatmulPreferenceSetAttribute(self, pref: c_void_p, attr: c_int, buf: REF, sizeInBytes: c_size_t) -> int:
        return self._noted(PREFERENCE, pref, attr, buf, sizeInBytes)

    @typed
    def cublasLtMatmulAlgoGetHeuristic(
        self,
        lightHandle: c_void_p,
        operationDesc: c_void_p,
        Adesc: c_void_p,
        Bdesc: c_void_p,
        Cdesc: c_void_p,
        Ddesc: c_void_p,
        preference: c_void_p,
        requestedAlgoCount: c_int,
        heuristicResultsArray: REF,
        returnAlgoCount: REF,
    ) -> int:
        if status := self.status.get("AlgoGetHeuristic"):
            return status
        _, _, *layouts = self._shapes(operationDesc, Adesc, Bdesc, Cdesc, Ddesc)
        if any(x.form in (2, 14) and x.ld.value % 2 for x in layouts):  # 16-bit rows at no multiple of 4 bytes
            return NOT_SUPPORTED
        most = self.alive[preference.value].attributes[1]
        fitting = [x for x in self.offers if x[1] <= most][: requestedAlgoCount.value]
        # In bytes: the layout of the results is the library's, not the binding's.
        raw = b"".join(
            struct.pack("=8QQif4i", *range(number, number + 8), size, state, waves, 9, 9, 9, 9)
            for number, size, state, waves in fitting
        )
        assert requestedAlgoCount.value * 96 == ctypes.sizeof(heuristicResultsArray._obj)
        ctypes.memmove(heuristicResultsArray._obj, raw, len(raw))
        returnAlgoCount._obj.value = len(fitting)
        return 0

    @typed
    def cublasLtMatmul(
        self,
        lightHandle: c_void_p,
        computeDesc: c_void_p,
        alpha: REF,
        A: c_void_p,
        Adesc: c_void_p,
        B: c_void_p,
        Bdesc: c_void_p,
        beta: REF,
        C: c_void_p,
        Cdesc: c_void_p,
        D: c_void_p,
        Ddesc: c_void_p,
        algo: REF,
        workspace: c_void_p,
        workspaceSizeInBytes: c_size_t,
        stream: c_void_p,
    ) -> int:
        assert (lightHandle.value, C.value, Cdesc.value) == (0x77, D.value, Ddesc.value)
        transa, transb, a, b, c = self._shapes(computeDesc, Adesc, Bdesc, Cdesc, Ddesc)
        m, n = c_int(c.rows), c_int(c.cols)
        k = c_int(a.rows if transa.value else a.cols)
        left = stored(self.reach, A, a.form, a.ld, transa, m, k)
        right = stored(self.reach, B, b.form, b.ld, transb, k, n)
        out = stored(self.reach, D, c.form, c.ld, c_int(0), m, n)
        compute = self.alive[computeDesc.value].compute
        step = product(compute, c.form, alpha, left, right, beta, out)
        self.reach(workspace.value or 0, workspaceSizeInBytes.value)
        self.algorithm = algo._obj[0]
        if self.algorithm in self.refused:
            return NOT_SUPPORTED
        self.computes.append(compute)
        self.enqueue(step, stream.value)
        self.journal.append((algo._obj[0], workspace.value, workspaceSizeInBytes.value, stream.value))
        return self.status.get("Matmul", 0)

    def _shapes(self, operation: Any, *layouts: Any) -> tuple[Any, Any, Any, Any, Any]:
        """The flags, and the layouts of A, B and C, which fit each other."""
        flags = self.alive[operation.value].attributes
        a, b, c, d = (self.alive[x.value] for x in layouts)
        left, right = (a.rows, a.cols)[:: -1 if flags[3] else 1], (b.rows, b.cols)[:: -1 if flags[4] else 1]
        assert (left[1], (left[0], right[1])) == (right[0], (c.rows, c.cols))
        assert a.form == b.form == c.form == d.form
        return c_int(flags[3]), c_int(flags[4]), a, b, c
