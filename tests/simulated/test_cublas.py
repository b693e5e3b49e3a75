"""The binding of cuBLAS against a library that writes down what it is called with."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cublas, cuda


class Text:
    """A function that answers bytes, as ctypes gives them."""

    restype: Any = None

    def __call__(self, status: Any) -> bytes:
        return f"CUBLAS_STATUS_{status.value}".encode()


class Library:
    """Column-major products in NumPy behind cuBLAS's names; `status` is what the next call answers."""

    def __init__(self, created: int = 0) -> None:
        self.created, self.status, self.journal = created, 0, []
        self.cublasGetStatusString = Text()

    def cublasCreate_v2(self, handle: Any) -> int:
        return self.created

    def cublasGetVersion_v2(self, handle: Any, number: Any) -> int:
        number._obj.value = 130100
        return 0

    def cublasSetStream_v2(self, handle: Any, stream: Any) -> int:
        self.journal.append(f"stream {stream.value}")
        return 0

    def cublasSetWorkspace_v2(self, handle: Any, place: Any, size: Any) -> int:
        self.journal.append(f"workspace {place.value} {size.value}")
        return 0

    def cublasSetMathMode(self, handle: Any, mode: Any) -> int:
        self.journal.append(f"math {mode.value}")
        return self.status

    def cublasSgemm_v2(self, handle: Any, ta: Any, tb: Any, m: Any, n: Any, k: Any, *rest: Any) -> int:
        alpha, a, lda, b, ldb, beta, c, ldc = rest
        left = columns(a, lda.value, (k if ta.value else m).value, (m if ta.value else k).value)
        right = columns(b, ldb.value, (n if tb.value else k).value, (k if tb.value else n).value)
        out = columns(c, ldc.value, m.value, n.value)
        product = (left.T if ta.value else left) @ (right.T if tb.value else right)
        out[...] = alpha._obj.value * product + (beta._obj.value * out if beta._obj.value else 0)
        return self.status

    def cublasSgeam(
        self, handle: Any, ta: Any, tb: Any, m: Any, n: Any, alpha: Any, a: Any, lda: Any, *rest: Any
    ) -> int:
        _, _, _, c, ldc = rest
        assert (ta.value, tb.value, alpha._obj.value) == (cublas.T, cublas.N, 1.0)
        columns(c, ldc.value, m.value, n.value)[...] = columns(a, lda.value, n.value, m.value).T
        return self.status


def columns(place: Any, ld: int, rows: int, cols: int) -> np.ndarray:
    """The column-major matrix at an address."""
    floats = (ctypes.c_float * (ld * cols)).from_address(place.value)
    return np.frombuffer(floats, np.float32).reshape(cols, ld).T[:rows]


def address(x: np.ndarray) -> int:
    return int(x.ctypes.data)


def test_the_workspace_is_set_after_the_stream() -> None:
    """Setting the stream takes a workspace away again."""
    library = Library()
    on = cublas.open_handle(stream=5, workspace=4096, library=library)
    assert library.journal == ["stream 5", f"workspace 4096 {32 << 20}"]
    assert on.version == "cuBLAS 13.1.0"


@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-2.5, 0.5)])
def test_a_product_in_row_major_terms(flags: tuple[int, int], alpha: float, beta: float) -> None:
    """Row-major C = op(A)·op(B) is column-major Cᵀ = op(B)ᵀ·op(A)ᵀ: operands and flags swapped."""
    m, n, k = 3, 5, 4
    rng = np.random.default_rng(1)
    a = rng.standard_normal((k, m) if flags[0] else (m, k)).astype(np.float32)
    b = rng.standard_normal((n, k) if flags[1] else (k, n)).astype(np.float32)
    c = rng.standard_normal((m, n)).astype(np.float32)
    want = alpha * ((a.T if flags[0] else a) @ (b.T if flags[1] else b)) + beta * c
    on = cublas.open_handle(0, 0, Library())
    call = cublas.sgemm(
        on, (flags[1], flags[0]), (n, m, k), (alpha, beta),
        (address(b), b.shape[1]), (address(a), a.shape[1]), (address(c), n),
    )  # fmt: skip
    call()
    assert np.allclose(c, want, rtol=1e-5)


def test_a_transposition() -> None:
    source = np.arange(12, dtype=np.float32).reshape(3, 4)
    target = np.zeros((4, 3), np.float32)
    on = cublas.open_handle(0, 0, Library())
    cublas.sgeam_transpose(on, 3, 4, (address(source), 4), (address(target), 3))()
    assert np.array_equal(target, source.T)


def test_what_it_answers_is_told() -> None:
    library = Library()
    on = cublas.open_handle(0, 0, library)
    library.status = 14
    with pytest.raises(LaunchError, match="cublasSetMathMode answers 14: CUBLAS_STATUS_14"):
        on.math(cublas.TF32_MATH)
    x = np.zeros((2, 2), np.float32)
    place = (address(x), 2)
    with pytest.raises(LaunchError, match="cublasSgemm answers 14"):
        cublas.sgemm(on, (0, 0), (2, 2, 2), (1.0, 0.0), place, place, place)()


def test_no_gpu_is_one_line() -> None:
    with pytest.raises(Unavailable, match="cublasCreate answers 1: no usable GPU"):
        cublas.open_handle(0, 0, Library(created=1))


def driver(init: int, count: int) -> Any:
    def counts(found: Any) -> int:
        found._obj.value = count
        return 0

    return SimpleNamespace(cuInit=lambda flags: init, cuDeviceGetCount=counts)


@pytest.mark.parametrize(
    ("init", "count", "told"), [(100, 0, "finds no GPU .cuInit answers 100."), (0, 0, "counts no GPU")]
)
def test_what_is_missing(monkeypatch: pytest.MonkeyPatch, init: int, count: int, told: str) -> None:
    monkeypatch.setattr(cuda.ctypes, "CDLL", lambda name: driver(init, count))
    import re

    assert re.search(told, cuda.missing() or "")


def test_without_cupy_it_says_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda.ctypes, "CDLL", lambda name: driver(0, 1))
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: None)
    assert cuda.missing() == "cupy is not installed: pip install 'kernelgap[cuda13]'"
