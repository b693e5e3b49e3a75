"""cuSPARSE in NumPy behind the names of its generic C interface: a product of a matrix in CSR and a dense one, both on
host memory, row-major. Arguments must have the very C types that the header gives them."""

from __future__ import annotations

from ctypes import c_int, c_int64, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.simulated.fake_cublas import REF, Enqueue, Reach, anywhere, array, at_once, typed

INVALID_VALUE, NOT_SUPPORTED = 3, 10
AREA = 1 << 13  # bytes that a product asks for
KNOWN = (0, 4, 6, 12)  # cusparseSpMMAlg_t


@dataclass
class Sparse:
    rows: int
    columns: int
    values: np.ndarray
    places: np.ndarray
    pointers: np.ndarray


@dataclass
class Dense:
    rows: int
    columns: int
    place: int


class Text:
    restype: Any = None

    def __call__(self, status: Any) -> bytes:
        return f"status {status.value}".encode()


class Library:
    """`status` is what cusparseCreate answers; `without`: algorithms that it has no code for. `enqueue` and `reach` as
    cuBLAS's stand-in has them."""

    def __init__(
        self, status: int = 0, without: tuple[int, ...] = (), enqueue: Enqueue = at_once, reach: Reach = anywhere
    ) -> None:
        self.status, self.without, self.enqueue, self.reach = status, without, enqueue, reach
        self.handles: dict[int, int | None] = {}
        self.matrices: dict[int, Sparse | Dense] = {}
        self.next = 0x900
        self.cusparseGetErrorString = Text()

    def _new(self) -> int:
        self.next += 1
        return self.next

    @typed
    def cusparseGetProperty(self, type: c_int, value: REF) -> int:  # noqa: A002
        value._obj.value = (12, 6, 3)[type.value]
        return 0

    @typed
    def cusparseCreate(self, handle: REF) -> int:
        handle._obj.value = self._new()
        self.handles[handle._obj.value] = None
        return self.status

    @typed
    def cusparseDestroy(self, handle: c_void_p) -> int:
        del self.handles[handle.value or 0]
        return 0

    @typed
    def cusparseSetStream(self, handle: c_void_p, stream: c_void_p) -> int:
        self.handles[handle.value or 0] = stream.value
        return 0

    @typed
    def cusparseCreateCsr(
        self,
        descriptor: REF,
        rows: c_int64,
        cols: c_int64,
        nnz: c_int64,
        offsets: c_void_p,
        indices: c_void_p,
        values: c_void_p,
        offsetsType: c_int,
        indicesType: c_int,
        base: c_int,
        valueType: c_int,
    ) -> int:
        if (offsetsType.value, indicesType.value, base.value, valueType.value) != (2, 2, 0, 0):
            return INVALID_VALUE
        made = Sparse(
            rows.value,
            cols.value,
            self._array(values, np.float32, (nnz.value,)),
            self._array(indices, np.int32, (nnz.value,)),
            self._array(offsets, np.int32, (rows.value + 1,)),
        )
        descriptor._obj.value = self._new()
        self.matrices[descriptor._obj.value] = made
        return 0

    @typed
    def cusparseCreateDnMat(
        self,
        descriptor: REF,
        rows: c_int64,
        cols: c_int64,
        ld: c_int64,
        values: c_void_p,
        type: c_int,  # noqa: A002
        order: c_int,
    ) -> int:
        if (ld.value, type.value, order.value) != (cols.value, 0, 2) or not values.value:
            return INVALID_VALUE
        descriptor._obj.value = self._new()
        self.matrices[descriptor._obj.value] = Dense(rows.value, cols.value, values.value)
        return 0

    @typed
    def cusparseDestroySpMat(self, descriptor: c_void_p) -> int:
        assert isinstance(self.matrices.pop(descriptor.value or 0), Sparse)
        return 0

    @typed
    def cusparseDestroyDnMat(self, descriptor: c_void_p) -> int:
        assert isinstance(self.matrices.pop(descriptor.value or 0), Dense)
        return 0

    @typed
    def cusparseSpMM_bufferSize(
        self,
        handle: c_void_p,
        opA: c_int,
        opB: c_int,
        alpha: REF,
        a: c_void_p,
        b: c_void_p,
        beta: REF,
        c: c_void_p,
        compute: c_int,
        algorithm: c_int,
        nbytes: REF,
    ) -> int:
        nbytes._obj.value = AREA
        return self._refusal(opA, opB, a, b, c, compute, algorithm)

    @typed
    def cusparseSpMM(
        self,
        handle: c_void_p,
        opA: c_int,
        opB: c_int,
        alpha: REF,
        a: c_void_p,
        b: c_void_p,
        beta: REF,
        c: c_void_p,
        compute: c_int,
        algorithm: c_int,
        work: c_void_p,
    ) -> int:
        if status := self._refusal(opA, opB, a, b, c, compute, algorithm):
            return status
        self.reach(work.value or 0, AREA)
        factors = alpha._obj.value, beta._obj.value
        sparse, source, target = (self.matrices[x.value or 0] for x in (a, b, c))
        assert isinstance(sparse, Sparse)
        given, answer = self._whole(source), self._whole(target)

        def step() -> None:
            whole = np.zeros((sparse.rows, sparse.columns))
            rows = np.repeat(np.arange(sparse.rows), np.diff(sparse.pointers))
            whole[rows, sparse.places] = sparse.values
            made = factors[0] * (whole @ given.astype(np.float64))
            answer[...] = made + factors[1] * answer if factors[1] else made

        self.enqueue(step, self.handles[handle.value or 0])
        return 0

    def _refusal(
        self, opA: c_int, opB: c_int, a: c_void_p, b: c_void_p, c: c_void_p, compute: c_int, algorithm: c_int
    ) -> int:
        sparse, source, target = (self.matrices[x.value or 0] for x in (a, b, c))
        fits = sparse.columns == source.rows and (sparse.rows, source.columns) == (target.rows, target.columns)
        if not fits or (opA.value, opB.value, compute.value) != (0, 0, 0) or algorithm.value not in KNOWN:
            return INVALID_VALUE
        return NOT_SUPPORTED if algorithm.value in self.without else 0

    def _whole(self, made: Sparse | Dense) -> np.ndarray:
        assert isinstance(made, Dense)
        return self._array(c_void_p(made.place), np.float32, (made.rows, made.columns))

    def _array(self, place: c_void_p, kind: Any, shape: tuple[int, ...]) -> np.ndarray:
        return array(self.reach, place, kind, shape)
