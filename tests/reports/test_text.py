"""Numbers with their units, and tables as text."""

from __future__ import annotations

import io
import json
from pathlib import Path

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


@pytest.mark.parametrize("width", [50, 70, 100])
def test_words_stand_whole_where_there_is_room(width: int) -> None:
    """And a number also where words do not; a long name gives way before the words of others."""
    out = shown(width, ROW, ROW)
    words = {word for cell in ROW[:2] + ROW[3:] for word in cell.split(" ")}
    assert width < 70 or all(out.count(word) >= 2 for word in words)
    assert out.count(ROW[2]) == 2
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


@pytest.mark.parametrize("width", [94, 100])
def test_where_there_is_room_every_name_stands_whole(width: int) -> None:
    """The gap is narrow before a name is broken."""
    lines = full(width)
    assert max(map(len, lines)) <= width
    shown = "\n".join(lines)
    assert all(name in shown for name in ("openblas-scipy", "transpose-then-nn"))
    if width == 100:
        words = [word for cell in (*FULL_HEAD, *FULL) for word in cell.split(" ")]
        pieces = ("6.13 ms,", "5.29 ms", "20 %,", "23 %")  # a number and its unit
        assert all(piece in shown for piece in (*words, *pieces))


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


def test_a_cell_is_broken_where_it_reads_best() -> None:
    for cell, width, lines in (
        ("short", 5, "short"),
        ("81 %, 79 %", 9, "81 %,|79 %"),
        ("nt / nn", 6, "nt /|nn"),
        ("nt a / nn b", 9, "nt a /|nn b"),
        ("transpose-then-nn / openblas", 12, "transpose-|then-nn /|openblas"),
        ("gemm/m:64/n:64/variant:x", 10, "gemm/m:64/|n:64/|variant:x"),
        ("xxxxx", 2, "xx|xx|x"),
        ("two\nlines of it", 9, "two\nlines|of it"),
        ("--variant", 9, "--variant"),
        ("", 3, ""),
    ):
        assert [line.rstrip() for line in text._lines(cell, width)] == lines.split("|")


def test_every_power_of_ten_has_three_figures() -> None:
    for power in range(-9, 15):
        text = units.scaled(10.0**power, "s")
        assert text.split()[0] in ("1.00", "10.0", "100"), text


# Functions of reports.units with their arguments and the text that they return.
UNITS = json.loads((Path(__file__).parent / "units.json").read_bytes())


@pytest.mark.parametrize("function", UNITS)
def test_numbers_with_their_units(function: str) -> None:
    for *given, wanted in UNITS[function]:
        assert getattr(units, function)(*given) == wanted
