"""The text of an explanation: what may be chance, and why where its own interval seems to say otherwise."""

from __future__ import annotations

import pytest

from reports import attribution
from reports.explanation import Bar
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
