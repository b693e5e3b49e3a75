"""How a number looks to a person."""

from __future__ import annotations

import math

import pytest

from reports import units


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (4.58e-6, "s", "4.58 µs"),
        (118e9, "FLOP/s", "118 GFLOP/s"),
        (1.0, "s", "1.00 s"),
        (999.0, "s", "999 s"),
        (1000.0, "s", "1.00 ks"),
        (1e-9, "s", "1.00 ns"),
        (1e-3, "s", "1.00 ms"),
        (1e-6, "s", "1.00 µs"),
        (12.34e-3, "s", "12.3 ms"),
        (3.2e-10, "s", "0.320 ns"),
        (1.5e15, "FLOP/s", "1.50 PFLOP/s"),
        (2e19, "FLOP/s", "20000 PFLOP/s"),
        (-4.58e-6, "s", "-4.58 µs"),
        (0.0, "B/s", "0 B/s"),
        (1.63e-22, "s", "0 s"),  # what is left of a sum that cancels
        (-1.63e-22, "s", "0 s"),
        (math.inf, "s", "inf s"),
        (math.nan, "s", "nan s"),
    ],
)
def test_scaled(value: float, unit: str, text: str) -> None:
    assert units.scaled(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.9999e-3, "1.00 ms"), (999.7, "1.00 ks"), (9.999, "10.0 s"), (99.96e-6, "100 µs")]
)
def test_rounding_up_keeps_three_figures(value: float, text: str) -> None:
    assert units.scaled(value, "s") == text


def test_every_power_of_ten_has_three_figures() -> None:
    for power in range(-9, 15):
        text = units.scaled(10.0**power, "s")
        assert text.split()[0] in ("1.00", "10.0", "100"), text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (64, "64 B"),
        (1 << 10, "1 KiB"),
        (48 << 10, "48 KiB"),
        (4 << 20, "4 MiB"),
        (1.5 * (1 << 30), "1.5 GiB"),
        (128 << 20, "128 MiB"),
        (5000 << 40, "5000 TiB"),
    ],
)
def test_binary(value: float, text: str) -> None:
    assert units.binary(value) == text


@pytest.mark.parametrize(("value", "text"), [(1000, "1000 B"), (1016 << 10, "1016 KiB")])
def test_binary_has_no_exponent(value: float, text: str) -> None:
    assert units.binary(value) == text


@pytest.mark.parametrize(
    ("center", "low", "high", "text"),
    [
        pytest.param(1.013, 1.009, 1.017, "1.013 [1.009, 1.017]"),
        (1.2, 0.9, 1.5, "1.20 [0.90, 1.50]"),
        (3.14159, 3.14158, 3.14160, "3.1416 [3.1416, 3.1416]"),
        (1.0, 1.0, 1.0, "1.0000 [1.0000, 1.0000]"),
        (1.0, None, None, "1, no interval"),
        (None, None, None, "–"),
    ],
)
def test_ratio(center: float | None, low: float | None, high: float | None, text: str) -> None:
    assert units.ratio(center, low, high) == text


@pytest.mark.parametrize(("value", "text"), [(2e-3, "+2.00 ms"), (-2e-3, "−2.00 ms"), (0.0, "+0 s"), (-1e-20, "+0 s")])
def test_signed(value: float, text: str) -> None:
    assert units.signed(value) == text


def test_what_is_not_known_is_a_dash() -> None:
    assert (units.seconds(None), units.percent(None)) == ("–", "–")
    assert (units.seconds(2e-3), units.percent(54.6)) == ("2.00 ms", "55 %")


def test_one_is_no_plural() -> None:
    assert [units.counted(count, "contest") for count in (0, 1, 2)] == ["0 contests", "1 contest", "2 contests"]
