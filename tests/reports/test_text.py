"""A table as text: within its width, no number broken, words broken only where nothing else helps."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from reports import table
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
