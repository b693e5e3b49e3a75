"""Texts of explanations and steps: what may be chance, and alarms for shares above a ceiling."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports import attribution, step
from reports.breakdown import Breakdown
from reports.explanation import Bar
from tests.reports.made_step import FOUND, found
from tests.reports.test_figures_waterfall import told


@pytest.mark.parametrize(
    ("low", "high", "sure", "says"),
    [
        (0.1, 0.3, False, "may be chance†"),
        (-0.3, -0.1, False, "may be chance†"),
        (-0.1, 0.3, False, "may be chance"),
        (0.1, 0.3, True, "certain"),
        (None, None, False, ""),
    ],
)
def test_an_interval_that_excludes_0_beside_may_be_chance_is_explained(
    low: float | None, high: float | None, sure: bool, says: str
) -> None:
    text = attribution.text(told(bars={"cause": (Bar("gemm", 0.3, 0.1, low, high, sure),)}))
    (row,) = (line for line in text.splitlines() if line.startswith("gemm "))
    assert row.endswith(says) and row.endswith("†") == ("†" in says)
    assert ("† its own 95 % interval excludes 0" in text) == ("†" in says)


def shared(percent: float, ceiling: str = "multiply-adds", dtype: str = "") -> Breakdown:
    """A step whose products have this share of their ceiling, and no residual."""
    gemm, *others = FOUND.kinds
    above = replace(gemm, percent=percent, ceiling=ceiling, left=gemm.a - percent * gemm.a, dtype=dtype)
    return found(kinds=(above, *others), residual={"a": 0.0})


def row(made: Breakdown, name: str = "gemm") -> str:
    return next(line for line in step.text(made).splitlines() if line.startswith(name))


@pytest.mark.parametrize(
    ("percent", "ceiling", "quality"),
    [
        (1.004, "multiply-adds", "strong"),  # printed as 100 %
        (1.02, "multiply-adds", "fair"),
        (1.8, "multiply-adds", "weak"),
        (1.02, "memory", "fair"),
        (1.8, "memory", "weak"),
    ],
)
def test_a_share_above_its_ceiling_lowers_the_quality(percent: float, ceiling: str, quality: str) -> None:
    made = shared(percent, ceiling)
    text, is_alarm = step.text(made), quality != "strong"
    assert text.splitlines()[-1].startswith(f"Quality: {quality}")
    assert ("gemm beats its ceiling" in text) == is_alarm
    assert (f"! gemm is {percent:.0%} of its ceiling" in text) == is_alarm == (f"{percent:.0%} !" in row(made))
    assert row(made).split()[-1].startswith("-") != is_alarm  # no saving from a figure that is wrong


def test_a_kind_too_small_for_the_table_is_no_alarm() -> None:
    small = replace(FOUND.kinds[-1], percent=3.0, ceiling="multiply-adds")
    assert "strong" in step.quality(found(kinds=(*FOUND.kinds[:-1], small), residual={"a": 0.0}))


@pytest.mark.parametrize(("dtype", "name"), [("bfloat16", "gemm in bfloat16 "), ("float32", "gemm  "), ("", "gemm  ")])
def test_the_table_names_a_type_other_than_the_usual(dtype: str, name: str) -> None:
    assert row(shared(0.5, dtype=dtype)).startswith(name)
