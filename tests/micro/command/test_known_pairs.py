"""What pairs of known truth say together, on numbers made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from micro.command import figure, known_pairs
from micro.command.figure import Figure, rate
from micro.command.known_pairs import Pair
from micro.contests import selftest
from micro.contests.selftest import Known
from reports import record
from tests import build


def pair(kind: str = "identical", verdict: str = "same", **changes: Any) -> Pair:
    return replace(Pair(kind, "64³", verdict, 0.1, True, False), **changes)


def named(found: Sequence[Figure], start: str) -> Figure:
    (one,) = [x for x in found if x.name.startswith(start)]
    return one


def test_contended_pairs_are_no_quiet_ones() -> None:
    """Nor do they excuse anything: those that are left are judged."""
    found = [pair()] * 300 + [pair(verdict="slower", contended=True)] * 100
    made = [*known_pairs.figures(found, False, True, None)]
    assert named(made, "pairs that were quiet").value == "300 of 400"
    assert named(made, selftest.NOT_DIFFERENT).value.startswith("300 of 300")
    nothing = [*known_pairs.figures([pair(contended=True)] * 50, False, True, None)]
    assert named(nothing, selftest.NOT_DIFFERENT).judgment == "not judged: there are none"
    assert figure.exit_code(nothing) == 0
    broken = [*known_pairs.figures([*found, *[pair(verdict="slower")] * 20], False, True, None)]
    assert named(broken, selftest.NOT_DIFFERENT).judgment == "NO"


def pilot(own: float, warning: str = "") -> record.Contest:
    """A second, of which the worker ran so much."""
    case = build.result(warnings=(warning,) if warning else ())
    return build.contest(case, system={"clock": 1.0, "own": own})


def test_the_pilot_decides_before_there_is_a_verdict() -> None:
    """By lost time, or by a canary."""
    assert known_pairs.noisy([pilot(0.85), pilot(0.99)]) is None
    why = known_pairs.noisy([pilot(0.81), pilot(0.95)])
    assert why == "12% of the pilot's time went to others"
    assert known_pairs.noisy([pilot(1.0), pilot(1.0, "contended: slow host: it took 9% more")]) is not None
    made = [*known_pairs.figures([pair(verdict="slower")] * 300, False, True, why)]
    assert {one.judgment for one in made if one.promised} == {f"not judged: {why}"}


def rounds(spread: float, count: int = 400, outliers: int = 0) -> record.Contest:
    """A second of an identical pair whose log ratios spread so much; some rounds were rejected."""
    rng = np.random.default_rng(1)
    first = np.exp(rng.normal(0, 0.2, count))
    second = first * np.exp(rng.normal(0, spread, count))
    second[:outliers] *= 9
    both = {"rounds": (*range(count),), "rejected": (*range(outliers),)}
    results = (build.result(samples=tuple(x.tolist()), **both) for x in (first, second))
    return build.contest(*results, seconds={"measuring": 1.0})


def known(kind: str, kernel: str) -> Known:
    return Known(kind, kernel, None)  # type: ignore[arg-type]


def test_what_a_kernel_needs_is_by_its_own_accepted_rounds_kind_by_kind() -> None:
    asked = [known("identical", "a"), known("identical", "a"), known("identical", "b"), known("+2 %", "a")]
    needs = known_pairs.needs(asked, [rounds(0.02), rounds(0.02, outliers=100), rounds(0.1), rounds(0.3)])
    for need, spread in ((needs["identical"]["a"], 0.02), (needs["identical"]["b"], 0.1), (needs["+2 %"]["a"], 0.3)):
        error = spread / 400**0.5
        assert 3 * error < need < 12 * error  # half of an interval of 99.5 %, and one of ten beyond
    assert known_pairs.needs([known("identical", "a")], [pilot(1.0)]) == {}


def test_a_kernel_is_not_asked_for_what_its_rounds_cannot_tell() -> None:
    """What needs 2 % has no room before the margin of +2 %, and enough before that of +5 %."""
    seconds = dict.fromkeys(("identical", "+5 %", "+2 %"), 1.0)
    kernels = {"64³": 0.006, "triad": 0.02, "copy": 0.1}
    needs = {"identical": kernels, "+5 %": kernels, "+2 %": {"64³": 0.03}}
    vague = known_pairs.vague(needs, seconds)
    assert vague == {"identical": ["triad", "copy"], "+5 %": ["copy"], "+2 %": ["64³"]}
    assert known_pairs.vague({"+2 %": {"triad": 0.019}}, dict.fromkeys(seconds, 4.0))["+2 %"] == []
    said = known_pairs.left_out(vague, needs, seconds).value
    assert selftest.SLOWER_5 + ": copy 10 % of the 4 % to the margin are noise" in said
    assert known_pairs.left_out({"identical": []}, needs, seconds).value == "none"


def test_vague_kernels_may_be_unresolved_and_may_not_be_called_different() -> None:
    pairs = [pair()] * 300 + [pair(kernel="copy", verdict="unresolved", seconds=9.0)] * 300
    made = [*known_pairs.figures(pairs, False, True, None, ["copy"])]
    assert named(made, selftest.SAME).value.startswith("300 of 300")
    assert named(made, selftest.NOT_DIFFERENT).value.startswith("600 of 600")
    assert named(made, "seconds a pair").held
    made = [*known_pairs.figures(pairs[300:], False, True, None, ["copy"])]
    assert named(made, "seconds a pair").judgment == "not judged: there are none"


def test_the_worst_kernel_stands_first() -> None:
    found = [pair()] * 150 + [pair(kernel="copy", holds=number % 4 > 0) for number in range(150)]
    made = [one for one in known_pairs.figures(found, False, True, None) if one.name.startswith("intervals that hold")]
    assert [one.name for one in made] == ["intervals that hold 1, copy, the worst", "intervals that hold 1, 64³"]
    assert [one.judgment for one in made] == ["NO", ""]


def test_beside_spinners_contended_pairs_count() -> None:
    found = [pair(contended=True)] * 300 + [pair("+2 %", "same", contended=True), pair("+5 %", "slower")]
    made = [*known_pairs.figures(found, True, True, None)]
    assert named(made, selftest.NOT_DIFFERENT).judgment == "yes"
    assert named(made, "+2 % missed but marked contended").held


# Whether a promise is held


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


def test_a_rate_between_two() -> None:
    for hits, word in ((819, "yes"), (806, "NO"), (845, "NO")):  # of 855: 0.958, 0.943, 0.988
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
