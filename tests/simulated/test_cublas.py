"""The binding of cuBLAS against a library that writes down what it is called with."""

from __future__ import annotations

import re
from ctypes import c_void_p
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cublas, cuda, skcuda
from tests.simulated.fake_cublas import FORMS, Cublas, narrowed, widened
from tests.simulated.fake_gpu import Scikit

# The rounding unit of what is multiplied or stored.
UNIT = {"fp32": 2.0**-24, "pedantic": 2.0**-24, "tf32": 2.0**-11, "bf16": 2.0**-8, "fp16": 2.0**-11}


def address(x: np.ndarray) -> int:
    return int(x.ctypes.data)


def product(
    dtype: str, flags: tuple[int, int], alpha: float, beta: float
) -> tuple[tuple[int, int, int], list[np.ndarray], np.ndarray, float]:
    """A column-major product with room between columns: (m, n, k), [A, B, C], what is wanted, how far off at most.

    Operands are C-contiguous arrays [columns, ld]; every number of the case differs from the others. Leading
    dimensions are even: for others cuBLASLt may have nothing.
    """
    m, n, k = mnk = 3, 5, 4
    shapes = (k, m) if flags[0] else (m, k), (n, k) if flags[1] else (k, n), (m, n)
    form = FORMS[{"fp32": 0, "pedantic": 0, "tf32": 0, "bf16": 14, "fp16": 2}[dtype]]
    rng = np.random.default_rng(7)
    operands = [
        narrowed(rng.standard_normal((cols, (rows + 7 + 4 * i) // 2 * 2)), form)
        for i, (rows, cols) in enumerate(shapes)
    ]
    a, b, c = (widened(x)[:, :rows].T.astype("f8") for x, (rows, _) in zip(operands, shapes, strict=True))
    left, right = a.T if flags[0] else a, b.T if flags[1] else b
    room = abs(alpha) * (abs(left) @ abs(right)) + abs(beta * c)
    return mnk, operands, alpha * left @ right + beta * c, float(4 * UNIT[dtype] * room.max())


def padding(x: np.ndarray, rows: int) -> bytes:
    """What lies between the columns of a column-major matrix."""
    return x[:, rows:].tobytes()


def test_the_workspace_is_set_after_the_stream() -> None:
    """Setting the stream takes a workspace away again."""
    library = Cublas()
    on = cublas.open_handle(stream=5, workspace=4096, library=library)
    assert library.journal == ["stream 5", f"workspace 4096 {32 << 20}"]
    assert library.workspace == 4096
    library.cublasSetStream_v2(on.handle, c_void_p(6))
    assert library.workspace is None
    assert on.version == "cuBLAS 13.1.0"


def test_a_workspace_that_begins_anywhere_is_refused() -> None:
    with pytest.raises(LaunchError, match=r"^cublasSetWorkspace answers 7: CUBLAS_STATUS_7$"):
        cublas.open_handle(stream=5, workspace=4096 + 64, library=Cublas())


@pytest.fixture(params=[cublas, skcuda])
def binding(request: pytest.FixtureRequest) -> Any:
    return request.param


def opened(binding: Any) -> Any:
    """A handle of our binding, or of scikit-cuda's."""
    if binding is cublas:
        return cublas.open_handle(0, 0, Cublas())
    return skcuda.Handle(Scikit(Cublas()), 1, "", 0)


@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-2.5, 0.5)])
def test_a_product_in_row_major_terms(binding: Any, flags: tuple[int, int], alpha: float, beta: float) -> None:
    """Row-major C = op(A)·op(B) is column-major Cᵀ = op(B)ᵀ·op(A)ᵀ: operands and flags swapped."""
    m, n, k = 3, 5, 4
    rng = np.random.default_rng(1)
    a = rng.standard_normal((k, m) if flags[0] else (m, k)).astype(np.float32)
    b = rng.standard_normal((n, k) if flags[1] else (k, n)).astype(np.float32)
    c = rng.standard_normal((m, n)).astype(np.float32)
    want = alpha * ((a.T if flags[0] else a) @ (b.T if flags[1] else b)) + beta * c
    call = binding.sgemm(
        opened(binding),
        (flags[1], flags[0]),
        (n, m, k),
        (alpha, beta),
        (address(b), b.shape[1]),
        (address(a), a.shape[1]),
        (address(c), n),
    )
    call()
    assert np.allclose(c, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-2.5, 0.5)])
@pytest.mark.parametrize("dtype", list(cublas.TYPES))
def test_a_product_of_each_type(dtype: str, flags: tuple[int, int], alpha: float, beta: float) -> None:
    mnk, (a, b, c), want, off = product(dtype, flags, alpha, beta)
    before = padding(c, mnk[0])
    on = cublas.open_handle(0, 0, Cublas())
    places = [(address(x), x.shape[1]) for x in (a, b, c)]
    cublas.gemm_ex(on, dtype, flags, mnk, (alpha, beta), *places)()
    assert abs(widened(c)[:, : mnk[0]].T - want).max() <= off
    assert padding(c, mnk[0]) == before


def test_only_tf32_cuts_its_operands() -> None:
    on = cublas.open_handle(0, 0, Cublas())
    found = []
    for dtype in ("fp32", "tf32"):
        mnk, operands, _, _ = product(dtype, (0, 0), 1.0, 0.0)
        cublas.gemm_ex(on, dtype, (0, 0), mnk, (1.0, 0.0), *((address(x), x.shape[1]) for x in operands))()
        found.append(operands[2])
    assert not np.array_equal(*found)


def test_a_transposition(binding: Any) -> None:
    source = np.arange(12, dtype=np.float32).reshape(3, 4)
    target = np.ones((4, 3), np.float32)  # nothing of which stays
    binding.sgeam_transpose(opened(binding), 3, 4, (address(source), 4), (address(target), 3))()
    assert np.array_equal(target, source.T)


def test_what_it_answers_is_told() -> None:
    library = Cublas()
    on = cublas.open_handle(0, 0, library)
    library.status = {"SetMathMode": 14, "Sgemm_v2": 14}
    with pytest.raises(LaunchError, match="cublasSetMathMode answers 14: CUBLAS_STATUS_14"):
        on.math(cublas.TF32_MATH)
    x = np.zeros((2, 2), np.float32)
    place = (address(x), 2)
    with pytest.raises(LaunchError, match="cublasSgemm answers 14"):
        cublas.sgemm(on, (0, 0), (2, 2, 2), (1.0, 0.0), place, place, place)()


def test_the_math_mode() -> None:
    library = Cublas()
    on = cublas.open_handle(0, 0, library)
    for mode in (cublas.DEFAULT_MATH, cublas.PEDANTIC_MATH, cublas.TF32_MATH):
        on.math(mode)
    assert library.journal[1:] == ["math 0", "math 2", "math 3"]


def test_no_gpu_is_one_line() -> None:
    with pytest.raises(Unavailable, match="cublasCreate answers 1: no usable GPU"):
        cublas.open_handle(0, 0, Cublas(Create_v2=1))


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
    assert re.search(told, cuda.missing() or "")


def test_without_cupy_it_says_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda.ctypes, "CDLL", lambda name: driver(0, 1))
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: None)
    assert cuda.missing() == "cupy is not installed: pip install 'kernelgap[cuda13]'"
