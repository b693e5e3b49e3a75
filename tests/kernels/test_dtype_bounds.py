"""What a product in 16 bits may be off by: honest ones pass, those that sum or multiply in fewer bits do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pytest

from kernels.dtypes import UNIT_ROUNDOFF, decode, encode, rounded, stored_as
from kernels.errors import WrongResult
from kernels.launch import Launch
from kernels.ops.gemm import Gemm, problem
from kernels.variant import Variant
from micro.worker import check
from tests.kernels.rows import checked

HALF = ("bf16", "fp16")
Array: TypeAlias = Any
Product = Callable[[str, Array, Array], Array]


def honest(dtype: str, a: Array, b: Array) -> Array:
    """Exact products, summed in single precision."""
    return a @ b


def split(dtype: str, a: Array, b: Array, parts: int = 4) -> Array:
    """As a library that splits K, with its partial sums in 16 bits."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for some in np.array_split(np.arange(a.shape[1]), parts):
        total = rounded(total + rounded(a[:, some] @ b[some], dtype), dtype)
    return total


def narrow(dtype: str, a: Array, b: Array) -> Array:
    """Every sum in 16 bits."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for p in range(a.shape[1]):
        total = rounded(total + a[:, p : p + 1] * b[p], dtype)
    return total


def coarse(x: Array, bits: int = 3) -> Array:
    """So many bits behind the point, as fp8 has."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(mantissa * 2.0 ** (bits + 1)) / 2.0 ** (bits + 1), exponent).astype(np.float32)


def eighth(dtype: str, a: Array, b: Array) -> Array:
    """Inputs cut to three bits."""
    return coarse(a) @ coarse(b)


def single(dtype: str, a: Array, b: Array) -> Array:
    """One input alone."""
    return coarse(a) @ b


def passed(product: Product, what: Gemm) -> check.Passed:
    """The check of a kernel that reads and writes what lies in memory."""

    def prepare(given: Gemm, device: object, setting: object) -> Any:
        def bind(buffers: Any) -> Launch:
            def call(c: Any) -> None:
                a, b = (decode(x) for x in buffers[:2])
                left, right = a if given.trans[0] == "n" else a.T, b if given.trans[1] == "n" else b.T
                answer = np.float32(given.alpha) * product(given.dtype, left, right)
                if given.beta:
                    answer = answer + np.float32(given.beta) * decode(c)
                c[...] = encode(answer, stored_as(c.dtype))

            return Launch(partial(call, buffers[2]))

        return bind

    return checked(what, Variant("its", "cpu", "mine", prepare), 5)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("k", [1, 2, 17, 300, 1024, 5000])
def test_honest_products_pass(dtype: str, k: int) -> None:
    passed(honest, Gemm(48, 40, k, dtype=dtype))


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("trans", ["nt", "tn", "tt"])
def test_with_factors_layouts_and_padding(dtype: str, trans: str) -> None:
    passed(honest, Gemm(33, 65, 257, trans, dtype, 0.5, 2.0, 3))
    passed(honest, Gemm(33, 65, 257, trans, dtype, -3.0, 0.0, 3))


@pytest.mark.parametrize("dtype", HALF)
def test_partial_sums_may_be_rounded(dtype: str) -> None:
    """That is the default of cuBLAS where it splits K."""
    passed(split, Gemm(48, 40, 1024, dtype=dtype))


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("wrong", [narrow, eighth, single])
def test_fewer_bits_than_the_type_has_are_refused(dtype: str, wrong: Product) -> None:
    with pytest.raises(WrongResult, match="times the tolerance of its precision"):
        passed(wrong, Gemm(48, 40, 1024, dtype=dtype))


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("k", [16, 64])
def test_coarse_inputs_are_refused_however_short_the_sums(dtype: str, k: int) -> None:
    with pytest.raises(WrongResult):
        passed(eighth, Gemm(48, 40, k, dtype=dtype))


@pytest.mark.parametrize("dtype", HALF)
def test_a_large_product_is_judged_by_some_of_its_entries(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As strictly: v of Freivalds would hide what 16 bits lose."""
    monkeypatch.setattr(problem, "FREIVALDS_FLOPS", 0)
    passed(honest, Gemm(96, 80, 1024, dtype=dtype))
    for wrong in (narrow, eighth):
        with pytest.raises(WrongResult):
            passed(wrong, Gemm(96, 80, 1024, dtype=dtype))


@pytest.mark.parametrize("dtype", HALF)
def test_its_entries_alone_tell_a_narrow_sum(dtype: str) -> None:
    what = Gemm(96, 80, 1024, dtype=dtype)
    x = what.fill(np.random.default_rng(3))
    for product, fits in ((honest, True), (split, True), (narrow, False)):
        got = rounded(product(dtype, x["a"], x["b"]), dtype)
        found = what._entries(x, got, UNIT_ROUNDOFF[dtype], np.random.default_rng(1))
        assert bool((found.error <= found.bound).all()) == fits


def test_tf32_may_round_its_inputs_and_fp32_may_not() -> None:
    def cut(dtype: str, a: Array, b: Array) -> Array:
        return coarse(a, 10) @ coarse(b, 10)

    passed(cut, Gemm(48, 40, 256, dtype="tf32"))
    with pytest.raises(WrongResult):
        passed(cut, Gemm(48, 40, 256))
    with pytest.raises(WrongResult):
        passed(eighth, Gemm(48, 40, 256, dtype="tf32"))
