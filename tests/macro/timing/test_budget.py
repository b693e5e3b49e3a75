"""What is said where the fewest rounds take longer than the budget."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from macro.timing.entry import Plan
from macro.timing.turns import over_budget

NETWORK: Any = SimpleNamespace(name="small")


@pytest.mark.parametrize(
    ("batch", "runs", "end"),
    [(64, 3, "; --runs 1 or a smaller --batch takes less"), (64, 1, "; a smaller --batch takes less"), (1, 1, " more")],
)
def test_a_first_round_that_is_too_long_says_the_whole_and_what_makes_it_less(batch: int, runs: int, end: str) -> None:
    plan = Plan(NETWORK, batch, "step", 60.0, runs)
    (text,) = over_budget(plan, 0, 20.0, 10.0)
    whole = 5 * 20 + (runs - 1) * (10 + 6 * 20)
    assert text.startswith(f"its 6 rounds take about 120 s, longer than its share of the budget: about {whole} s more")
    assert text.endswith(end)


def test_the_last_generation_has_none_after_it() -> None:
    (text,) = over_budget(Plan(NETWORK, 64, "step", 60.0, 2, first=3), 4, 20.0, 10.0)
    assert "about 100 s more" in text


def test_rounds_within_the_budget_are_not_spoken_of() -> None:
    assert not list(over_budget(Plan(NETWORK, 64, "step", 60.0, 3), 0, 3.3, 10.0))
