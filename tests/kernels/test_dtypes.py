"""Element types: what lies in memory is the nearest there is, and comes back exactly."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from kernels.dtypes import BYTES, NOT_A_NUMBER, STORED, UNIT_ROUNDOFF, decode, encode, rounded, stored_as

HALF = ("bf16", "fp16")
# Bits of a float32, and those of the bfloat16 that is nearest; of two as near the even one.
TABLE = (
    (0x00000000, 0x0000),
    (0x80000000, 0x8000),
    (0x3F800000, 0x3F80),
    (0xC0490FDB, 0xC049),
    (0x3F808000, 0x3F80),
    (0x3F818000, 0x3F82),
    (0x3F807FFF, 0x3F80),
    (0x3F808001, 0x3F81),  # ties and beside them
    (0xBF808000, 0xBF80),
    (0xBF818000, 0xBF82),
    (0x3FFF8000, 0x4000),  # … with a carry into the exponent
    (0x00000001, 0x0000),
    (0x00008000, 0x0000),
    (0x00008001, 0x0001),
    (0x00018000, 0x0002),  # subnormal
    (0x007FFFFF, 0x0080),
    (0x807F8000, 0x8080),  # … up to the smallest that is not
    (0x7F7FFFFF, 0x7F80),
    (0xFF7FFFFF, 0xFF80),
    (0x7F7F7FFF, 0x7F7F),
    (0x7F800000, 0x7F80),
    (0xFF800000, 0xFF80),
)
NANS = (0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0xFF80FFFF)


def floats(bits: tuple[int, ...]) -> np.ndarray:
    return np.array(bits, np.uint32).view(np.float32)


def test_bfloat16_is_the_nearest() -> None:
    given, wanted = zip(*TABLE, strict=True)
    assert encode(floats(given), "bf16").tolist() == list(wanted)


@pytest.mark.parametrize("dtype", HALF)
def test_what_is_no_number_stays_none(dtype: str) -> None:
    """Some have no bit among those that are kept; rounding up would make infinity or zero of others."""
    assert np.isnan(decode(encode(floats(NANS), dtype))).all()


def test_a_bfloat16_that_is_no_number_is_the_quiet_one() -> None:
    assert set(encode(floats(NANS), "bf16").tolist()) == {NOT_A_NUMBER}


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch: pip install torch")
def test_bfloat16_as_torch_rounds_it() -> None:
    """Any bits at all, and all ties of one exponent."""
    import torch

    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
    ties = (np.arange(0x3F80, 0x4000, dtype=np.uint32) << 16) | 0x8000
    x = np.concatenate([bits, ties, ties ^ 1, ties - 1, np.arange(1 << 17, dtype=np.uint32)]).view(np.float32)
    theirs = torch.from_numpy(x).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    ours = encode(x, "bf16")
    number = ~np.isnan(x)
    assert np.array_equal(ours[number], theirs[number])
    assert np.isnan(decode(ours[~number])).all() and np.isnan(decode(theirs[~number])).all()


@pytest.mark.parametrize("dtype", HALF)
def test_all_that_memory_can_hold_comes_back(dtype: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(STORED[dtype])
    widened = decode(every)
    assert widened.dtype == np.float32
    number = ~np.isnan(widened)
    assert number.sum() > 60000
    again = encode(widened, dtype)
    assert np.array_equal(again.view(np.uint16)[number], every.view(np.uint16)[number])


@pytest.mark.parametrize("dtype", HALF)
def test_the_unit_roundoff_is_the_largest_relative_error(dtype: str) -> None:
    x = np.linspace(1, 4, 100_003, dtype=np.float32)
    worst = float((abs(rounded(x, dtype).astype("f8") - x) / x).max())
    assert 0.9 * UNIT_ROUNDOFF[dtype] < worst <= UNIT_ROUNDOFF[dtype]


@pytest.mark.parametrize("dtype", list(BYTES))
def test_a_type_has_its_bytes_and_its_name(dtype: str) -> None:
    """TF32 lies in memory as float32 does."""
    kind = np.dtype(STORED[dtype])
    assert kind.itemsize == BYTES[dtype]
    assert stored_as(kind) == ("fp32" if dtype == "tf32" else dtype)
    assert stored_as(kind.type) == stored_as(STORED[dtype]) == stored_as(kind)
    assert encode(np.ones(3, np.float32), dtype).dtype == kind


def test_an_array_of_another_type_is_none_of_them() -> None:
    with pytest.raises(KeyError):
        stored_as(np.complex64)


@pytest.mark.parametrize("dtype", list(BYTES))
def test_shape_and_order_of_an_array_do_not_matter(dtype: str) -> None:
    x = np.random.default_rng(1).standard_normal((6, 5), np.float32)
    for view in (x.T, x[::2, 1:], np.broadcast_to(x[:1], (4, 5))):
        assert np.array_equal(decode(encode(view, dtype)), rounded(np.ascontiguousarray(view), dtype))


def test_what_memory_holds_anyway_is_not_copied() -> None:
    x = np.ones(3, np.float32)
    assert rounded(x, "fp32") is x and rounded(x, "tf32") is x


def test_too_large_for_half_precision_is_infinite() -> None:
    """Without a warning, which is an error in these tests."""
    large = np.array([65504, 65520, -1e30, 6e-8, 2e-8], np.float32)
    assert encode(large, "fp16").tolist() == [65504.0, np.inf, -np.inf, 2.0**-24, 0.0]


def test_whole_numbers_of_eight_bits() -> None:
    """The nearest within ±127; of two as near the even one. What is no number has none, and is zero."""
    given = np.array([0.5, 1.5, -2.5, 126.6, 127.4, 500, -500, np.nan, np.inf, -np.inf], np.float32)
    stored = encode(given, "int8")
    assert stored.tolist() == [0, 2, -2, 127, 127, 127, -127, 0, 127, -127]
    assert decode(stored).dtype == np.float32


def test_sums_of_them_are_exact_and_the_least_is_no_number() -> None:
    sums = np.array([0, 1, -(2**31) + 1, 2**31 - 1], np.int32)
    assert decode(sums).tolist() == sums.tolist()
    poison = encode(np.full(2, np.nan, np.float32), "int32")
    assert poison.dtype == np.int32 and np.isnan(decode(poison)).all()
