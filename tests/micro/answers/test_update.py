"""What is said of runs of micro/update.py, on runs made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernels.ops.update.problem import Update
from kernels.setting import Setting
from micro import update
from micro.answers.update import PASS, Rounds, batch_answer, cleared, fused_answer, sums
from micro.findings.crossing import Bracket, bracket
from micro.planning.benchmark import Request
from micro.planning.contest import Contest as Plan
from reports.record import Contest, Run
from tests.build import over, run, timed

ROUNDS = 12


def measured(plan: Plan, times: list[float | None], rejected: tuple[int, ...] = ()) -> Contest:
    """The contest with these medians; its pairs' ratios from them."""
    results = [
        timed(
            case,
            t,
            samples=tuple(50.0 if i in rejected else (t or 0) * (1 + 0.01 * (-1) ** i) for i in range(ROUNDS)),
            rejected=rejected,
        )
        for case, t in zip(plan.cases, times, strict=True)
    ]
    pairs = tuple(over(results[a], results[b], 0.02) for a, b in plan.comparisons)
    return Contest(plan.name, "?", plan.differs, tuple(results), pairs)


ASKED = Request("update", update.BENCHMARK.sweep, (), (Setting(),), frozenset())
LAYER = Update(2048, 2048, 64)
# fused, separate, wgrad, update, clear, scale, 65 tiles of the product, 65 of the scaling: 64 make the layer
TIMES: list[float | None] = [3e-3, 4.4e-3, 3.3e-3, 1e-3, 0.3e-3, 0.45e-3, 65 / 64 * 2.7e-3, 65 / 64 * 0.1e-3]


def forms(times: list[float | None], layer: Update = LAYER, library: str = "openblas", **more: Any) -> Contest:
    return measured(update.forms(ASKED, layer, library), times, **more)


def test_sums_are_of_the_parts() -> None:
    separate, fused = sums(forms(TIMES))
    assert [name for name, _ in separate.parts] == ["gradient", "pass"]
    assert separate.total == pytest.approx(4.3e-3, rel=0.02)
    assert separate.ratio is not None and separate.ratio.center == pytest.approx(4.4 / 4.3, rel=1e-3)
    assert fused.ratio is not None and fused.ratio.center == pytest.approx(3 / (2.7 + 0.35), rel=1e-3)
    gradient = cleared(forms(TIMES))
    assert gradient is not None and gradient.ratio is not None
    assert gradient.ratio.center == pytest.approx(1.0, rel=1e-3)


def test_rejected_rounds_do_not_count() -> None:
    rounds = Rounds(forms(TIMES, rejected=(0, 5))).get("separate")
    assert rounds is not None and len(rounds) == ROUNDS - 2 and rounds.max() < 1


def test_the_answer_says_ratio_sums_and_band() -> None:
    said = fused_answer(run(forms(TIMES)))
    assert said[0] == (
        "2048×2048, batch 64, openblas: separate takes 1.47 [1.44, 1.50] times the fused product; "
        "separate 4.40 ms, sum 4.30 ms (gradient 3.30 ms, pass 1.00 ms), difference +2 % [+2, +2]; "
        "fused 3.00 ms, sum 3.05 ms (multiply-adds 2.70 ms, traffic of W 350 µs), difference -2 % [-2, -2]; "
        "gradient 3.30 ms, sum 3.30 ms (fused product 3.00 ms, clearing 300 µs), difference +0 % [+0, +0]."
    )
    assert said[1] == "0 of 2 rows unexplained: their parts miss them by more than 15%."
    assert said[-1] == (
        "Separate over fused, OpenBLAS, 2048×2048 at batch 64: 1.47 [1.44, 1.50]; expected on Intel and AMD above "
        "1.05: as expected."
    )


def test_what_misses_a_sum_or_a_band_is_told() -> None:
    said = fused_answer(run(forms([TIMES[0], 6e-3, *TIMES[2:]], library="mkl")))
    assert "difference +40 % [+40, +40]: unexplained; fused" in said[0]
    assert "clearing" not in said[0], "MKL adds nothing to what it has cleared"
    assert said[1].startswith("1 of 2 rows unexplained")
    times = [TIMES[1], *TIMES[1:]]
    last = fused_answer(run(forms(times)))[-1]
    assert last.endswith("1.000 [0.980, 1.020]; expected on Intel and AMD above 1.05: NOT as expected.")
    assert not [x for x in fused_answer(run(forms(times, replace(LAYER, m=1024)))) if "expected" in x]


def test_a_part_without_a_time_leaves_its_sum_out() -> None:
    times = [*TIMES]
    times[3] = times[5] = None
    said = fused_answer(run(forms(times)))
    assert "separate 4.40 ms" not in said[0] and "fused 3.00 ms" not in said[0]
    assert sums(forms([*TIMES[:2], *[None] * 6])) == []
    assert fused_answer(run(forms([None] * 8))) == []


# The batch


def sweep(*crossing: tuple[int, float], library: str = "openblas") -> Run:
    contests = []
    for k, ratio in crossing:
        plan = update.batch_at(ASKED, 2048, 2048, k, library)
        contests.append(measured(plan, [1e-3, ratio * 1e-3, 1e-3, 1.5e-3]))
    return run(*contests)


def test_the_crossover_lies_between_its_neighbors() -> None:
    known = sweep((4, 2.0), (16, 1.2), (64, 0.5), (256, 0.1))
    for crossing, says in (
        ([(4, 0.9), (16, 0.5)], "from batch 4 on"),
        ([(4, 3.0), (16, 1.5)], "nowhere up to batch 16"),
    ):
        assert f"its gradient {says}, by" in batch_answer(sweep(*crossing))[0]
    (by_batch,) = PASS.groups(known).values()
    assert bracket(by_batch) == Bracket(16, 64)
    said = batch_answer(known)
    assert said[0] == (
        "openblas 2048 2048: the pass over W is cheaper than its gradient from somewhere between batch 16 and 64 on, "
        "by 4 verdicts; at 256 it takes 0.100 [0.098, 0.102] times as long."
    )


def test_a_wide_bracket_is_halved_until_it_is_narrow() -> None:
    crossing = [(4, 2.0), (16, 1.2), (64, 0.5)]
    seen, question = [], update.BENCHMARK.questions["batch"]
    for _ in range(10):
        more = question.refine(ASKED, sweep(*crossing))
        if not more:
            break
        k = more[0].cases[0].problem.k  # type: ignore[attr-defined]
        seen.append(k)
        crossing.append((k, 1.1 if k < 25 else 0.9))
    assert seen[0] == 32 and len(seen) <= 5
    (by_batch,) = PASS.groups(sweep(*crossing)).values()
    last = bracket(by_batch)
    assert last.low and last.high and last.low < 25 <= last.high <= 1.3 * last.low


def test_runs_of_which_nothing_was_timed_say_nothing() -> None:
    plans = [*update.fused(ASKED), *update.batch(ASKED)]
    nothing = run(*(measured(plan, [None] * len(plan.cases)) for plan in plans))
    assert [*fused_answer(nothing), *batch_answer(nothing)] == []
