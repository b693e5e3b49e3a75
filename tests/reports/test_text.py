"""Numbers with their units, and tables as text."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from reports import table, units
from reports.formats import text

HEAD = ("at", "contender / baseline", "ratio, 95 % interval", "verdict")
ROW = ("gemm m:64 n:64 k:64", "transpose-then-nn / openblas", "1.026 [1.019, 1.032]", "unresolved (1) (2)")


def shown(width: int, *rows: tuple[str, ...]) -> str:
    stream = io.StringIO()
    text._table(Console(file=stream, width=width), table.Table("", HEAD, rows))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    return stream.getvalue()


@pytest.mark.parametrize("width", [70, 80, 100])
def test_words_stand_whole_where_there_is_room(width: int) -> None:
    out = shown(width, ROW, ROW)
    words = {word for cell in ROW[:2] + ROW[3:] for word in cell.split(" ")}
    assert all(out.count(word) >= 2 for word in words)
    assert out.count(ROW[2]) == 2


@pytest.mark.parametrize("width", [50, 60])
def test_a_number_stands_whole_where_words_do_not(width: int) -> None:
    assert shown(width, ROW).count(ROW[2]) == 1


def test_a_long_name_gives_way_before_the_words_of_others() -> None:
    out = shown(100, ("x" * 90, *ROW[1:]))
    assert "transpose-then-nn" in out and "unresolved" in out and "x" * 90 not in out


NAMES = ("m:8 openblas-scipy", "nt transpose-then-nn / nn openblas", "0.926 [0.924, 0.927]", "0.81 to 1.05")
FULL = (*NAMES, "not comparable (1) (2)", "6.13 ms, 5.29 ms", "20 %, 23 %")
FULL_HEAD = ("at", "contender / baseline", *table.UNBROKEN, "verdict", "times of both", "of ceiling")


def full(width: int, ratio: str = FULL[2]) -> list[str]:
    """The lines of a table of every column, its names as long as they are."""
    stream = io.StringIO()
    row = (*FULL[:2], ratio, *FULL[3:])
    text._table(Console(file=stream, width=width), table.Table("Ratios", FULL_HEAD, (row,)))
    return stream.getvalue().splitlines()


def test_at_100_columns_every_name_stands_whole() -> None:
    lines = full(100)
    assert max(map(len, lines)) <= 100
    shown = "\n".join(lines)
    words = [word for cell in (*FULL_HEAD, *FULL) for word in cell.split(" ")]
    assert all(word in shown for word in words)
    assert all(piece in shown for piece in ("6.13 ms,", "5.29 ms", "20 %,", "23 %")), "a number and its unit"


def test_at_80_columns_names_are_broken_at_their_hyphens() -> None:
    lines = full(80, "0.93 [0.92, 0.94]")
    assert max(map(len, lines)) <= 80
    pieces = ("openblas-", "scipy", "transpose-", "then-nn", FULL[3], "comparable", "0.93 [0.92, 0.94]")
    assert all(piece in "\n".join(lines) for piece in pieces)


def test_a_name_with_hyphens_gives_way_before_a_longer_one_without() -> None:
    stream, head = io.StringIO(), ("at", "verdict")
    row = ("x-" * 9, "y" * 20)
    text._table(Console(file=stream, width=25), table.Table("", head, (row,)))
    assert row[1] in stream.getvalue() and row[0] not in stream.getvalue()


def test_the_gap_is_narrow_before_a_name_is_broken() -> None:
    lines = full(94)
    assert max(map(len, lines)) <= 94
    assert all(name in "\n".join(lines) for name in ("openblas-scipy", "transpose-then-nn"))


@pytest.mark.parametrize(
    ("cell", "width", "lines"),
    [
        ("short", 5, ["short"]),
        ("81 %, 79 %", 9, ["81 %,", "79 %"]),
        ("nt / nn", 6, ["nt /", "nn"]),
        ("nt a / nn b", 9, ["nt a /", "nn b"]),
        ("transpose-then-nn / openblas", 12, ["transpose-", "then-nn /", "openblas"]),
        ("gemm/m:64/n:64/variant:x", 10, ["gemm/m:64/", "n:64/", "variant:x"]),
        ("x" * 5, 2, ["xx", "xx", "x"]),
        ("two\nlines of it", 9, ["two\nlines", "of it"]),
        ("--variant", 9, ["--variant"]),
        ("", 3, [""]),
    ],
)
def test_a_cell_is_broken_where_it_reads_best(cell: str, width: int, lines: list[str]) -> None:
    assert [line.rstrip() for line in text._lines(cell, width)] == lines


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
