"""Our binding of cuSPARSE on a stand-in that computes: what it passes, and what it says when it is refused."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cuda, cusparse
from kernels.ops.spmm.problem import Spmm
from tests.simulated import fake_cusparse

PROBLEM, STREAM = Spmm(7, 5, 11, 0.3), 0x40


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def made(library: Any, weights: list[np.ndarray]) -> tuple[cusparse.Handle, cusparse.Csr]:
    on = cusparse.open_handle(STREAM, library)
    values, columns, pointers = map(address, weights)
    return on, cusparse.csr(on, (PROBLEM.m, PROBLEM.k), PROBLEM.nonzeros, (values, columns, pointers))


@pytest.mark.parametrize("algorithm", cusparse.ALGORITHMS)
def test_a_product_on_its_stream(algorithm: str) -> None:
    """And all that was made is destroyed with what holds it."""
    seen: list[int | None] = []

    def enqueue(step: Any, stream: int | None) -> None:
        seen.append(stream)
        step()

    library = fake_cusparse.Library(enqueue=enqueue)
    weights = list(PROBLEM.weights())
    b = np.random.default_rng(0).standard_normal((PROBLEM.k, PROBLEM.n)).astype(np.float32)
    c, work = np.full((PROBLEM.m, PROBLEM.n), np.nan, np.float32), np.zeros(fake_cusparse.AREA, np.uint8)
    on, sparse = made(library, weights)
    assert cusparse.area(on, algorithm, sparse, PROBLEM.n) == fake_cusparse.AREA
    call = cusparse.product(on, algorithm, sparse, PROBLEM.n, address(b), address(c), address(work))
    call()
    assert np.allclose(c, PROBLEM.dense() @ b, atol=1e-5) and seen == [STREAM]
    assert len(library.matrices) == 3
    del call, sparse, on
    gc.collect()
    assert not library.matrices and not library.handles


def test_an_algorithm_that_it_has_no_code_for_is_unavailable() -> None:
    weights = list(PROBLEM.weights())
    on, sparse = made(fake_cusparse.Library(without=(12,)), weights)
    with pytest.raises(Unavailable, match="cusparseSpMM_bufferSize answers 10: status 10"):
        cusparse.area(on, "alg3", sparse, PROBLEM.n)


def test_operands_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(LaunchError, match="cusparseCreateDnMat answers 3: status 3"):
        on, sparse = made(fake_cusparse.Library(), list(PROBLEM.weights()))
        cusparse.product(on, "default", sparse, PROBLEM.n, 0, 0, 0)


def test_without_a_device_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = fake_cusparse.Library(status=1)
    monkeypatch.setattr(cuda, "load", lambda name: library)
    with pytest.raises(Unavailable, match="cusparseCreate answers 1: no usable GPU"):
        cusparse.open_handle(STREAM)
    assert cusparse.kernel() == ("cuSPARSE 12.6.3", None)
