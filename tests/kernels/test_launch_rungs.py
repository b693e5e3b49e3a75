"""The rungs of `launch`: each says which call it makes, and makes exactly `chain` calls in a launch."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.catalog import find, variants
from kernels.libs import numba, openblas, torch
from kernels.ops.launch import libraries, native
from kernels.ops.launch.problem import Calls
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker import guards
from tests.kernels.rows import CPU

KERNELS = ("gemm", "empty")


@pytest.mark.parametrize("row", [row for row in variants("launch") if row.device == "cpu"], ids=lambda row: row.name)
def test_which_call_is_made_is_told(row: Variant[Calls]) -> None:
    assert [row.blas(problem) for kernel in KERNELS if not row.accepts(problem := Calls(kernel, 1))]


def views(problem: Calls) -> list[Any]:
    return guards.Bench(CPU, problem).views


# Exactly `chain` calls


class Counter:
    """A kernel that counts: as a Python function, and as a C function that calls it."""

    def __init__(self, *kinds: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._c = ctypes.CFUNCTYPE(None, *kinds)(self)
        address = ctypes.cast(self._c, ctypes.c_void_p).value
        assert address is not None
        self.address = address

    def __call__(self, *arguments: Any, **named: Any) -> None:
        self.calls.append((*arguments, *named.values()))


POINTER, FLOAT, WHOLE = ctypes.c_void_p, ctypes.c_float, {True: ctypes.c_int64, False: ctypes.c_int}
CHAINS = pytest.mark.parametrize("chain", [1, 2, 17])


def pointers(problem: Calls) -> list[Any]:
    return [POINTER] * len(problem.operands())


@CHAINS
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("row", ["c", "cffi", "ctypes", "ctypes-convert"])
def test_our_own_function_is_called_so_often(
    monkeypatch: pytest.MonkeyPatch, row: str, kernel: str, chain: int
) -> None:
    problem = Calls(kernel, chain)
    if why := find("launch", row).missing():
        pytest.skip(why)
    counter = Counter(*pointers(problem))
    monkeypatch.setattr(native, "kernel", lambda problem: counter.address)
    buffers = views(problem)
    launch = find("launch", row).prepare(problem, CPU, Setting())(buffers)
    launch.call()
    assert launch.uses == chain and counter.calls == [tuple(x.ctypes.data for x in buffers)] * chain


@CHAINS
@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("row", ["openblas", "ctypes-openblas"])
def test_a_blas_is_called_so_often(monkeypatch: pytest.MonkeyPatch, row: str, wide: bool, chain: int) -> None:
    whole, enum = WHOLE[wide], ctypes.c_int
    counter = Counter(
        enum, enum, enum, whole, whole, whole, FLOAT, POINTER, whole, POINTER, whole, FLOAT, POINTER, whole
    )
    blas: Any = SimpleNamespace(sgemm=counter.address, wide=wide)
    monkeypatch.setattr(openblas, "load", lambda owner: blas)
    problem = Calls("gemm", chain)
    a, b, c = buffers = views(problem)
    prepare = native.library(lambda: blas) if row == "openblas" else find("launch", row).prepare
    prepare(problem, CPU, Setting())(buffers).call()
    at = [x.ctypes.data for x in (a, b, c)]
    assert counter.calls == [(101, 111, 111, 8, 8, 8, 1.0, at[0], 8, at[1], 8, 0.0, at[2], 8)] * chain


@CHAINS
@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_python_loop_calls_so_often(count: int, chain: int) -> None:
    calls: list[tuple[Any, ...]] = []
    made = libraries.chained(lambda *x: calls.append(x), list(range(count)), chain)
    assert made.uses == chain and not calls, "binding calls nothing"
    made.call()
    assert calls == [tuple(range(count))] * chain


@CHAINS
def test_torch_is_called_so_often(monkeypatch: pytest.MonkeyPatch, chain: int) -> None:
    product, zero = Counter(), Counter()
    fake = SimpleNamespace(
        mm=product,
        Tensor=SimpleNamespace(zero_=zero),
        from_numpy=lambda x: x,
        set_num_threads=lambda n: None,
        set_grad_enabled=lambda on: None,
    )
    monkeypatch.setattr(torch, "load", lambda: fake)
    for kernel, counter, size in (("gemm", product, 64), ("empty", zero, 0)):
        problem = Calls(kernel, chain)
        libraries.eager(problem, CPU, Setting())(views(problem)).call()
        assert len(counter.calls) == chain
        assert counter.calls[0][-1].size == size, "nothing is written where nothing is to be done"


@CHAINS
@pytest.mark.parametrize(("row", "place"), [("numpy", "kernels.lazy.np.matmul"), ("scipy", "scipy.linalg.blas.sgemm")])
def test_an_array_library_is_called_so_often(monkeypatch: pytest.MonkeyPatch, row: str, place: str, chain: int) -> None:
    counter = Counter()
    monkeypatch.setattr(place, counter)
    problem = Calls("gemm", chain)
    find("launch", row).prepare(problem, CPU, Setting())(views(problem)).call()
    assert len(counter.calls) == chain


@CHAINS
def test_numba_is_called_so_often(monkeypatch: pytest.MonkeyPatch, chain: int) -> None:
    counter = Counter()
    monkeypatch.setattr(numba, "load", lambda: SimpleNamespace(njit=lambda kinds: lambda body: counter))
    for kernel in KERNELS:
        problem = Calls(kernel, chain)
        find("launch", "numba").prepare(problem, CPU, Setting())(views(problem)).call()
    assert len(counter.calls) == 2 * chain


@pytest.mark.parametrize("row", ["nothing", "nothing-python"])
def test_the_harness_alone_calls_nothing(monkeypatch: pytest.MonkeyPatch, row: str) -> None:
    counter = Counter(POINTER)
    monkeypatch.setattr(native, "kernel", lambda problem: counter.address)
    problem = Calls("empty", 1)
    find("launch", row).prepare(problem, CPU, Setting())(views(problem)).call()
    assert not counter.calls
    assert find("launch", row).accepts(Calls("empty", 2)), "it is the same for every chain"
