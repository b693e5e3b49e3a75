"""When a promise of the self-test is held, refuted or not judged."""

from __future__ import annotations

import pytest

from micro.command import figure
from micro.command.figure import Figure, rate


@pytest.mark.parametrize(
    ("hits", "trials", "least", "word"),
    [
        (750, 750, 0.985, "yes"),
        (746, 750, 0.985, "yes"),  # 4 false alarms: at most 1.36 %
        (745, 750, 0.985, "NO"),  # 5: the interval reaches 1.55 %
        (150, 150, 0.985, "not judged: 150 are too few to show it"),
        (140, 150, 0.985, "NO"),  # too few to show it, enough to refute it
        (116, 120, 0.90, "yes"),
        (114, 120, 0.90, "NO"),  # its upper end is far above: that it touches does not help
        (0, 0, 0.90, "not judged: there are none"),
    ],
)
def test_a_rate_is_held_where_its_whole_interval_lies_inside(hits: int, trials: int, least: float, word: str) -> None:
    assert rate("x", hits, trials, least).judgment == word


@pytest.mark.parametrize(
    ("hits", "word"),
    [(819, "yes"), (806, "NO"), (845, "NO")],  # of 855: 0.958, 0.943, 0.988
)
def test_a_rate_between_two(hits: int, word: str) -> None:
    one = rate("x", hits, 855, 0.93, None, 0.98)
    assert (one.judgment, one.promised) == (word, "0.93 to 0.98")


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (-0.0004, 0.0009, "yes"),
        (0.0005, 0.0015, "NO"),
        (-0.0009, 0.0020, "not judged: the interval is too wide to show it"),
        (0.0011, 0.0090, "NO"),  # wide, and beyond all the same
    ],
)
def test_a_deviation_is_held_where_its_whole_interval_lies_inside(low: float, high: float, word: str) -> None:
    made = figure.within("bias", (low, (low + high) / 2, high), 0.001)
    assert (made.judgment, made.promised) == (word, "inside ±0.1 %")
    assert figure.within("bias", (low, 0.0, high), 0.001, "noisy").judgment == "not judged: noisy"


def test_what_was_said_beforehand_is_not_judged_whatever_came() -> None:
    for hits in (300, 0):
        one = rate("x", hits, 300, 0.90, "the host is busy")
        assert (one.judgment, figure.exit_code([one])) == ("not judged: the host is busy", 0)
    assert figure.exit_code([rate("x", 0, 300, 0.90)]) == 1


def test_the_table_has_the_column(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    made = [rate("a", 300, 300, 0.9), rate("b", 30, 300, 0.9), rate("c", 3, 3, 0.9), Figure("d", "1 ns", "", True)]
    figure.table(made, sys.stdout)
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip(" ─")]
    assert head == ["figure", "found", "promised", "held"]
    assert [row[-1] for row in rows[:2]] == ["yes", "NO"] and "not judged: 3 are too few" in " ".join(rows[2])
