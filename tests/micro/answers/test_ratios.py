"""The sentences of most questions, and of runs of micro.transfer and micro.update, made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernels.ops.gemm import Gemm
from kernels.ops.saxpy import Saxpy
from kernels.ops.transfer import Transfer
from kernels.ops.update.problem import Update
from kernels.setting import Setting
from micro import update
from micro.answers import transfer_curve as curves
from micro.answers.update import PASS, Rounds, batch_answer, cleared, fused_answer, sums
from micro.findings import ratios
from micro.findings.crossing import Bracket, bracket, wins
from micro.findings.ratios import expected
from micro.planning.benchmark import Request
from micro.planning.contest import Case
from micro.planning.contest import Contest as Plan
from reports.record import Contest, Run
from tests import build
from tests.build import LAYER, TIMES, contested, layer, over, ranked, run, short, timed

CONV = "conv n:16 c:96 h:27 w:27 k:256 r:5 s:5 pad:2"


def test_ratios_stand_below_their_question() -> None:
    first, second = contested("a", LAYER, TIMES), contested("b", replace(LAYER, n=8), {"torch": 1.0, "direct": 1.0})
    asked = replace(first, question="which algorithm?"), replace(second, question="which algorithm?")
    assert ratios.ratios(run(*asked)) == [
        "Which algorithm?",
        f"  {CONV}, relative to torch: direct 0.920 [0.911, 0.929], fft-pyfftw-kept 0.417 [0.412, 0.421].",
        f"  {CONV.replace('n:16', 'n:8')}, relative to torch: direct 1.000 [0.990, 1.010] (unresolved).",
    ]
    assert ratios.ratios(run(short())) == []
    in_turn = ranked("steps", *(layer(LAYER, name, t) for name, t in TIMES.items()), in_turn=True)
    baselines = [x.partition(", relative to ")[2].partition(":")[0] for x in ratios.ratios(run(in_turn))[1:]]
    assert baselines == ["torch", "direct"]


def test_of_many_contenders_the_extremes_are_named() -> None:
    times = {"torch": 10.0} | {f"winograd-{i}": 5.0 + i for i in range(1 + ratios.FEW)}
    (_, sentence) = ratios.ratios(run(contested("a", LAYER, times)))
    assert sentence.endswith(
        f"{1 + ratios.FEW} ratios, from winograd-0 0.500 [0.495, 0.505] to winograd-4 0.900 [0.891, 0.909]."
    )


def test_labels_are_what_cases_do_not_share() -> None:
    names = ["gemm/m:8/variant:c/device:fake/threads:1", "gemm/m:8/trans:nt/variant:c/device:fake/threads:1"]
    assert ratios.words(names) == ("gemm m:8 c", {names[0]: "the default", names[1]: "trans:nt"})
    other = "transfer/size:4/variant:memcpy/threads:2"
    assert ratios.words([names[0], other])[1][other] == "transfer size:4 memcpy threads:2"


def compared(kind: str, a: Case, b: Case, ratio: float, isa: str | None = None) -> Contest:
    first, second = (replace(build.case(1), name=x.name, isa_observed=isa) for x in (a, b))
    return build.contest(first, second, contest=f"{kind}/x", comparisons=(build.compared(second, first, ratio),))


@pytest.mark.parametrize(("ratio", "outcome"), [(2.5, "as expected"), (1.5, "NOT as expected")])
def test_a_ratio_with_an_expected_range_is_judged_by_it(ratio: float, outcome: str) -> None:
    warm, flushed, swept = (Case(Saxpy(262144, state), "c") for state in ("warm", "flushed", "swept"))
    pairs = [("cold", warm, flushed), ("cold", warm, swept), ("state", warm, flushed)]  # the range is of the first
    (said,) = expected(run(*(compared(*pair, ratio) for pair in pairs)))
    assert said.startswith(f"Cold over warm, vectors of 256 KiB, flushed: {ratio:.2f} [")
    assert said.endswith(f"; expected on Intel and AMD above 1.8, usually 2.3 to 8: {outcome}.")


@pytest.mark.parametrize(("isa", "m", "count"), [("avx512", 16, 1), ("avx512", 17, 0), ("avx2", 16, 0)])
def test_a_range_may_be_of_one_instruction_set(isa: str, m: int, count: int) -> None:
    case = Case(Gemm(m, 64, 64), "openblas"), Case(Gemm(m, 64, 64, "nt"), "openblas")
    assert len(expected(run(compared("nn-nt", *case, 1.0, isa)))) == count
    assert not count or expected(run(compared("nn-nt", *case, 1.0, isa)))[0].endswith("above 1.1: not as usual.")


@pytest.mark.parametrize(
    ("verdicts", "low", "high", "where"),
    [
        ({4: "slower", 16: "same", 64: "faster"}, 16, 64, "from somewhere between M = 16 and 64 on"),
        ({4: "faster", 16: "slower", 64: "faster"}, 16, 64, "from somewhere between M = 16 and 64 on"),
        ({4: "faster", 16: "faster"}, None, 4, "from M = 4 on"),
        ({4: "unresolved", 16: "faster"}, None, 16, "from M = 16 on"),
        ({4: "slower", 16: "unresolved"}, 4, None, "nowhere up to M = 16"),
        ({4: "slower", 16: "slower"}, 16, None, "nowhere up to M = 16"),
    ],
)
def test_a_crossing_is_between_two_verdicts(verdicts: dict[int, str], low: int, high: int, where: str) -> None:
    known = short().comparisons[0]
    by_size = {m: replace(known, verdict=verdict) for m, verdict in verdicts.items()}
    assert bracket(by_size) == Bracket(low, high)
    assert wins(bracket(by_size), max(by_size), "M =") == where
    middles = {(16, 64): 32, (16, 20): None, (16, 21): 18, (None, 4): None}
    assert {ends: Bracket(*ends).middle for ends in middles} == middles


def test_the_order_by_two_rounds_is_said_and_that_it_is_not_certain() -> None:
    assert ratios.few_rounds(run(short())) == [
        "conv n:16 c:96 h:27 w:27 k:256 r:5 s:5 pad:2: by 2 rounds, not certain: "
        "fft-pyfftw-kept 57.5 ms, direct 127 ms, torch 138 ms."
    ]
    assert "by 1 round, not" in ratios.few_rounds(run(short(1)))[0]


def test_of_many_contests_the_first_are_said() -> None:
    """What was wrong is not ranked, and a contest with a ratio is left to its own answer."""
    many = [short(problem=replace(LAYER, n=n)) for n in range(1, ratios.MOST + 4)]
    said = ratios.few_rounds(run(*many))
    assert len(said) == ratios.MOST + 1 and said[-1] == "3 more contests have times without a ratio."
    known, *others = short().comparisons
    partly = replace(short(), comparisons=(replace(known, ratio=0.9, low=0.8, high=1.0), *others))
    wrong = replace(short(), comparisons=tuple(replace(one, verdict="not comparable") for one in (known, *others)))
    assert ratios.few_rounds(run(contested("algorithms", LAYER, TIMES), partly, wrong)) == []


KIB, MIB = 1 << 10, 1 << 20
CACHES = (48 * KIB, 2 * MIB, 300 * MIB)
LEVELS = ((16 * KIB, 2e-9, 2e11), (MIB, 20e-9, 5e10), (16 * MIB, 1e-6, 2e10), (1 << 40, 1e-4, 1e10))


def exact(size: int) -> float:
    """Seconds, by the level that holds a copy of so many bytes; the last cache is smaller than the system says."""
    latency, rate = next((latency, rate) for end, latency, rate in LEVELS if size <= end)
    return latency + size / rate


def test_a_line_is_found_with_its_interval_and_what_it_leaves() -> None:
    line = curves.fit({size: 1e-6 + size / 1e10 for size in (1 << 10, 1 << 14, 1 << 18, 1 << 22)})
    assert line is not None
    assert line.latency == pytest.approx((1e-6,) * 3, rel=1e-6) and line.rate == pytest.approx((1e10,) * 3, rel=1e-6)
    assert (line.first, line.last) == (1 << 10, 1 << 22)
    bent = curves.fit({1 << 10: 1e-6, 1 << 14: 2e-6, 1 << 18: 2e-5, 1 << 22: 8e-4})
    assert bent is not None and bent.latency[1] < bent.latency[0] < bent.latency[2] and bent.worst > 0.1
    assert bent.rate[1] < bent.rate[0] and (bent.rate[2] is None or bent.rate[2] > bent.rate[0])
    assert curves.fit({1: 1.0, 2: 2.0}) is None


def test_each_level_has_its_own_line_and_the_last_cache_ends_where_the_times_say() -> None:
    times = {KIB << i: exact(KIB << i) for i in range(21)}
    found = curves.lines(times, CACHES)
    spans = [(line.first, line.last) for line in found]
    # 32 KiB and 1 MiB fill a cache with both operands: they are in no line.
    assert spans == [(KIB, 16 * KIB), (64 * KIB, 512 * KIB), (2 * MIB, 16 * MIB), (32 * MIB, 1 << 30)]
    for line, (_, latency, rate) in zip(found, LEVELS, strict=True):
        assert line.latency[0] == pytest.approx(latency, rel=1e-3) and line.rate[0] == pytest.approx(rate, rel=1e-3)
        assert line.worst < 1e-6


def test_chance_cuts_no_level() -> None:
    """Memory without a bend is one level, and too few sizes are none."""
    for noise in (0.0, 0.03):
        times = {MIB << i: (1e-6 + (MIB << i) / 1e10) * (1 + noise * (-1) ** (i // 2)) for i in range(1, 9)}
        assert [(line.first, line.last) for line in curves.lines(times, CACHES)] == [(2 * MIB, 256 * MIB)]
    assert curves.lines({KIB: 1e-9, 2 * KIB: 2e-9}, CACHES) == curves.lines({}, ()) == []


def test_a_library_that_copies_otherwise_what_is_large_has_a_line_of_its_own_there() -> None:
    rates = {MIB << i: 2e10 if i < 4 else 7e9 if i < 7 else 1.3e10 for i in range(1, 11)}
    found = curves.lines({size: size / rate for size, rate in rates.items()}, CACHES)
    spans = [(line.first // MIB, line.last // MIB) for line in found]
    assert spans == [(2, 8), (16, 64), (128, 1024)]


def on_caches(*contests: Contest) -> Run:
    whole = build.run(*contests)
    return replace(whole, environment=replace(whole.environment, facts={"device": {"caches": list(CACHES)}}))


def test_the_curve_says_each_level_of_each_way() -> None:
    sizes = [KIB << i for i in range(21)]
    cases = {Case(Transfer(size), "memcpy"): exact(size) for size in sizes}
    rows = [timed(case, seconds, contest=f"curve/{case.problem.name}") for case, seconds in cases.items()]
    every = list(map(build.contest, rows))
    head, told = curves.curve(on_caches(*every))
    assert head.startswith("Cost of a call + bandwidth") and told.startswith(
        "memcpy: 1 KiB to 16 KiB 2.00 ns [2, 2] + 200 GB/s"
    )
    assert "; 32 MiB to 1 GiB 100 µs [100, 100] + 10.0 GB/s [10, 10], 0 %." in told
    (few,) = curves.curve(on_caches(*every[:2]))
    assert few == "memcpy: 1 KiB in 7.12 ns, 2 KiB at 167 GB/s."


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
UPDATED = Update(2048, 2048, 64)
# fused, separate, wgrad, update, clear, scale, 65 tiles of the product, 65 of the scaling: 64 make the layer
TOOK: list[float | None] = [3e-3, 4.4e-3, 3.3e-3, 1e-3, 0.3e-3, 0.45e-3, 65 / 64 * 2.7e-3, 65 / 64 * 0.1e-3]


def forms(times: list[float | None], layer: Update = UPDATED, library: str = "openblas", **more: Any) -> Contest:
    return measured(update.forms(ASKED, layer, library), times, **more)


def test_sums_are_of_the_parts() -> None:
    separate, fused = sums(forms(TOOK))
    assert [name for name, _ in separate.parts] == ["gradient", "pass"]
    assert separate.total == pytest.approx(4.3e-3, rel=0.02)
    assert separate.ratio is not None and separate.ratio.center == pytest.approx(4.4 / 4.3, rel=1e-3)
    assert fused.ratio is not None and fused.ratio.center == pytest.approx(3 / (2.7 + 0.35), rel=1e-3)
    gradient = cleared(forms(TOOK))
    assert gradient is not None and gradient.ratio is not None
    assert gradient.ratio.center == pytest.approx(1.0, rel=1e-3)


def test_rejected_rounds_do_not_count() -> None:
    rounds = Rounds(forms(TOOK, rejected=(0, 5))).get("separate")
    assert rounds is not None and len(rounds) == ROUNDS - 2 and rounds.max() < 1


def test_the_answer_says_ratio_sums_and_band() -> None:
    said = fused_answer(run(forms(TOOK)))
    assert said[0] == (
        "2048×2048, batch 64, openblas: separate takes 1.47 [1.44, 1.50] times the fused product's time; "
        "separate 4.40 ms, sum 4.30 ms (gradient 3.30 ms, pass 1.00 ms), difference +2 % [+2, +2]; "
        "fused 3.00 ms, sum 3.05 ms (multiply-adds 2.70 ms, traffic of W 350 µs), difference -2 % [-2, -2]; "
        "gradient 3.30 ms, sum 3.30 ms (fused product 3.00 ms, clearing 300 µs), difference +0 % [+0, +0]."
    )
    assert said[1] == "0 of 2 rows unexplained: the sum of their parts differs by more than 15%."
    assert said[-1] == (
        "Separate over fused, OpenBLAS, 2048×2048 at batch 64: 1.47 [1.44, 1.50]; expected on Intel and AMD above "
        "1.05: as expected."
    )


def test_what_misses_a_sum_or_a_band_is_told() -> None:
    said = fused_answer(run(forms([TOOK[0], 6e-3, *TOOK[2:]], library="mkl")))
    assert "difference +40 % [+40, +40]: unexplained; fused" in said[0]
    assert "clearing" not in said[0], "MKL adds nothing to what it has cleared"
    assert said[1].startswith("1 of 2 rows unexplained")
    times = [TOOK[1], *TOOK[1:]]
    last = fused_answer(run(forms(times)))[-1]
    assert last.endswith("1.000 [0.980, 1.020]; expected on Intel and AMD above 1.05: NOT as expected.")
    assert not [x for x in fused_answer(run(forms(times, replace(UPDATED, m=1024)))) if "expected" in x]


def test_a_part_without_a_time_leaves_its_sum_out() -> None:
    times = [*TOOK]
    times[3] = times[5] = None
    said = fused_answer(run(forms(times)))
    assert "separate 4.40 ms" not in said[0] and "fused 3.00 ms" not in said[0]
    assert sums(forms([*TOOK[:2], *[None] * 6])) == []
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
