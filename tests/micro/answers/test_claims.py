"""Published ratios beside measured ones."""

from __future__ import annotations

import pytest

from micro.findings.claims import Claim
from tests import build


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((0.95, 1.05), "the published claim of 3 times (a paper) is refuted here: not 3 times, 0.95 to 1.05"),
        ((3.1, 3.5), "the published claim of 3 times (a paper) is refuted here: not 3 times, 3.10 to 3.50"),
        ((2.9, 3.1), "the published claim of 3 times (a paper) is inside this interval"),
    ],
)
def test_an_interval_beside_the_claim_refutes_it(ends: tuple[float, float], text: str) -> None:
    comparison = build.comparison(ratio=1.0, low=ends[0], high=ends[1])
    assert Claim(3, "a paper").beside(comparison) == text
