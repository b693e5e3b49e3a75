"""What is said of runs of micro/update.py and micro/optimizer.py, on runs made by hand."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from kernels.ops.optimizer.problem import Optimizer
from kernels.ops.update.problem import Update
from kernels.setting import Setting
from micro import update
from micro.answers.optimizer import rules_answer, together_answer
from micro.answers.update import batch_answer, brackets, fused_answer, refine_batch
from micro.answers.update_parts import Rounds, cleared, sums
from micro.planning.benchmark import Request
from micro.planning.contest import Case
from micro.planning.contest import Contest as Plan
from reports.record import Comparison, Contest, Environment, Result, Run, Seconds

ROUNDS = 12


def result(case: Case, seconds: float | None, rejected: tuple[int, ...] = ()) -> Result:
    blank: dict[str, Any] = {
        "name": case.name,
        "contest": "x",
        "role": "measured",
        "op": case.problem.op,
        "problem": {x: getattr(case.problem, x) for x in case.problem.__dataclass_fields__},
        "variant": case.variant,
        "device": "cpu",
        "threads": 1,
    }
    if seconds is None:
        return Result(**blank, status="skipped", reason="not here")
    samples = tuple(50.0 if i in rejected else seconds * (1 + 0.01 * (-1) ** i) for i in range(ROUNDS))
    return Result(
        **blank,
        status="ok",
        seconds=Seconds(seconds, None, None, 0.95),
        samples=samples,
        rejected=rejected,
        flops_per_second=case.problem.flops / seconds,
        bytes_per_second=case.problem.bytes / seconds,
    )


def measured(plan: Plan, times: list[float | None], verdict: str = "", rejected: tuple[int, ...] = ()) -> Contest:
    """The contest with these medians; its pairs' ratios from them."""
    results = tuple(result(case, x, rejected) for case, x in zip(plan.cases, times, strict=True))
    compared = []
    for a, b in plan.comparisons:
        first, second = times[a], times[b]
        ratio = second / first if first and second else None
        low, high = (ratio * 0.98, ratio * 1.02) if ratio else (None, None)
        told = verdict or ("slower" if ratio and ratio > 1.01 else "faster" if ratio and ratio < 0.99 else "same")
        compared.append(
            Comparison(
                plan.name,
                plan.differs,
                plan.cases[a].name,
                plan.cases[b].name,
                ratio,
                low,
                high,
                0.95,
                told,
                None,
                0.01,
                0.01,
            )
        )
    return Contest(plan.name, "?", plan.differs, results, tuple(compared))


def run(*contests: Contest) -> Run:
    return Run(Environment("0", {}, {}, "", ""), contests)


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
    assert said[2] == (
        "Separate over fused, OpenBLAS, 2048×2048 at batch 64: 1.47 [1.44, 1.50]; expected on Intel and AMD above "
        "1.05: as expected."
    )


def test_a_sum_that_misses_is_unexplained() -> None:
    times = [*TIMES]
    times[1] = 6e-3
    said = fused_answer(run(forms(times, library="mkl")))
    assert "difference +40 % [+40, +40]: unexplained; fused" in said[0]
    assert "clearing" not in said[0], "MKL adds nothing to what it has cleared"
    assert said[1].startswith("1 of 2 rows unexplained")


def test_a_band_that_does_not_hold_is_told() -> None:
    times = [*TIMES]
    times[0] = times[1]
    assert fused_answer(run(forms(times)))[-1].endswith(
        "1.000 [0.980, 1.020]; expected on Intel and AMD above 1.05: NOT as expected."
    )
    assert not [x for x in fused_answer(run(forms(times, replace(LAYER, m=1024)))) if "expected" in x]


def test_a_part_without_a_time_leaves_its_sum_out() -> None:
    times = [*TIMES]
    times[3] = times[5] = None
    said = fused_answer(run(forms(times)))
    assert "separate 4.40 ms" not in said[0] and "fused 3.00 ms" not in said[0]
    assert sums(forms([*TIMES[:2], *[None] * 6])) == []
    assert fused_answer(run(forms([None] * 8))) == []


def test_rules_shared_weights_and_gain_are_told() -> None:
    small = Update(784, 2048, 64)
    rules = update.rules(ASKED, small, "openblas")
    tied = update.tied(ASKED, small, "openblas")
    gain = update.gain(ASKED, small, "openblas")
    ways = update.ways(ASKED, small)
    said = fused_answer(
        run(
            measured(rules, [1.0] + [1.5] * 6 + [1.2] * 3),
            measured(tied, [1.0, 1.1, 1.3]),
            measured(gain, [1.0, 1.0]),
            measured(ways, [1.0, 1.5, *[2.0] * 5]),
        )
    )
    assert said[0].startswith("784×2048, batch 64, against fused:openblas: separate:openblas 1.50 [1.47, 1.53], ")
    assert "momentum/sgd separate 1.50" in said[1] and "momentum separate/fused 1.25" in said[1]
    assert said[2].endswith(
        "one gradient that the second product adds to takes 1.100 [1.078, 1.122] times both products onto W."
    )
    assert "two gradients and their sum take 1.18" in said[3]
    assert said[4] == (
        "Momentum of unit gain at lr 1 makes the steps of the plain one at lr 0.1, and takes 1.000 [0.980, 1.020] "
        "times as long (same)."
    )


# The batch


def sweep(*crossing: tuple[int, float], library: str = "openblas") -> Run:
    contests = []
    for k, ratio in crossing:
        plan = update.batch_at(ASKED, 2048, 2048, k, library)
        contests.append(measured(plan, [1e-3, ratio * 1e-3, 1e-3, 1.5e-3]))
    return run(*contests)


def test_the_crossover_lies_between_its_neighbors() -> None:
    known = sweep((4, 2.0), (16, 1.2), (64, 0.5), (256, 0.1))
    (bracket,) = brackets(known).values()
    assert (bracket.low, bracket.high) == (16, 64)
    said = batch_answer(known)
    rates = 6 * (2 * 256 * 2048**2 / 1e-3) / (12 * 2048**2 / 0.1e-3)
    assert said[0] == (
        "2048×2048, openblas: the pass over W costs as much as its gradient between batch 16 and 64, by 4 verdicts "
        f"({rates:.0f} by 6·F/BW at the rates of batch 256, which leave out that the gradient is written); "
        "pass over gradient: 2.00 [1.96, 2.04] at 4, 1.200 [1.176, 1.224] at 16, "
        "0.500 [0.490, 0.510] at 64, 0.100 [0.098, 0.102] at 256."
    )
    assert said[1].startswith("2048×2048, openblas: separate over fused 1.50 [1.47, 1.53] at 4, ")


@pytest.mark.parametrize(
    ("crossing", "says"),
    [
        ([(4, 0.9), (16, 0.5)], "below batch 4, the smallest tried"),
        ([(1, 0.9), (16, 0.5)], "at no batch, not even at 1"),
        ([(4, 3.0), (16, 1.5)], "above batch 16, the largest tried"),
    ],
)
def test_a_crossover_that_was_not_seen_is_said_so(crossing: list[tuple[int, float]], says: str) -> None:
    assert says in batch_answer(sweep(*crossing))[0]


def test_a_wide_bracket_is_halved_until_it_is_narrow() -> None:
    crossing = [(4, 2.0), (16, 1.2), (64, 0.5)]
    seen = []
    for _ in range(10):
        more = refine_batch(ASKED, sweep(*crossing), update.batch_at)
        if not more:
            break
        k = more[0].cases[0].problem.k  # type: ignore[attr-defined]
        seen.append(k)
        crossing.append((k, 1.1 if k < 25 else 0.9))
    assert seen[0] == 32 and len(seen) <= 5
    (bracket,) = brackets(sweep(*crossing)).values()
    assert bracket.low and bracket.high and bracket.low < 25 <= bracket.high <= 1.3 * bracket.low


# Optimizers


def contest(name: str, cases: list[Case], times: list[float | None], *pairs: tuple[int, int]) -> Contest:
    return measured(Plan(name, "?", "work: differs", tuple(cases), tuple(pairs)), times)


def test_rules_are_told_with_their_bytes() -> None:
    setting = Setting(data="uniform")
    cases = [Case(Optimizer(rule, 1, 1000), "c", setting) for rule in ("sgd", "copy", "adam")]
    said = rules_answer(run(contest("traffic/x", cases, [1.2e-6, 1e-6, 3.5e-6])))
    assert said == [
        "1000 parameters, c, each rule in one pass over its arrays, sgd's of 7.81 KiB:",
        "  sgd, 12 B a parameter: 10.0 GB/s, 100% of the faster of copy and sgd.",
        "  copy, 8 B a parameter, 0.67 times sgd's: 0.833 [0.817, 0.850] times its time; 8.00 GB/s, 80% of the "
        "faster of copy and sgd.",
        "  adam, 28 B a parameter, 2.33 times sgd's: 2.92 [2.86, 2.98] times its time; 8.00 GB/s, 80% of the "
        "faster of copy and sgd.",
    ]
    rows = [Case(Optimizer("adam", 3, 1000), name, setting) for name in ("c", "numpy", "torch-fused")]
    assert rules_answer(run(contest("ways/x", rows, [1e-6, 4e-6, None]))) == [
        "adam of 3 × 1000 parameters, times c: numpy 4.00 [3.92, 4.08]."
    ]


def test_one_call_and_many_are_told_by_the_tensor() -> None:
    rows = [Case(Optimizer("sgd", 10, 100), name, Setting()) for name in ("c", "c-each", "torch-fused", "torch-loop")]
    pairs = [(0, 1), (0, 2), (0, 3), (2, 3)]
    said = together_answer(run(contest("tensors/x", rows, [1e-6, 1.2e-6, 11e-6, 51e-6], *pairs)))
    assert said == [
        "sgd of 10 × 100 parameters, times c (1.00 µs): c-each 1.200 [1.176, 1.224], torch-fused 11.00 [10.78, "
        "11.22], torch-loop 51.00 [49.98, 52.02].",
        "  c-each over c: 1.200 [1.176, 1.224], 20.0 ns more a tensor.",
        "  torch-loop over torch-fused: 4.64 [4.54, 4.73], 4.00 µs more a tensor.",
    ]


def test_runs_of_which_nothing_was_timed_say_nothing() -> None:
    plans = [*update.fused(ASKED), *update.batch(ASKED)]
    nothing = run(*(measured(plan, [None] * len(plan.cases)) for plan in plans))
    assert list(itertools.chain(fused_answer(nothing), batch_answer(nothing), rules_answer(nothing))) == []
    assert together_answer(nothing) == []
