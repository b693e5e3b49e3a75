"""The sentences of most questions: ratios, expected ranges, sums of parts, and times without an interval."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.ops.gemm import Gemm
from kernels.ops.saxpy import Saxpy
from kernels.problem import Problem
from micro.findings import ratios
from micro.findings.crossing import Bracket, bracket, wins
from micro.findings.ratios import expected
from micro.findings.sums import SumOf
from micro.planning.contest import Case
from reports.record import Contest, Result
from tests import build
from tests.build import LAYER, TIMES, contested, layer, ranked, run, short

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
        f"of {1 + ratios.FEW} the least winograd-0 0.500 [0.495, 0.505], the most winograd-4 0.900 [0.891, 0.909]."
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
    assert not count or expected(run(compared("nn-nt", *case, 1.0, isa)))[0].endswith("above 1.1: not so here.")


def sampled(problem: Problem, variant: str, seconds: float, *rejected: int) -> Result:
    samples = tuple(seconds * (100 if i in rejected else 1 + 0.01 * (i % 2)) for i in range(12))
    timed = layer(LAYER, variant, seconds)
    rounds = tuple(range(12))
    return replace(timed, name=Case(problem, variant).name, samples=samples, rounds=rounds, rejected=rejected)


def test_sums_of_parts_are_compared_round_by_round() -> None:
    parts = [sampled(replace(LAYER, direction=x), "torch", 1.0, 3) for x in ("forward", "dgrad", "wgrad")]
    answer = SumOf("first/", "without dgrad", r"^(?!.*direction:dgrad)", "")
    (sentence,) = answer(run(ranked("first", *parts), ranked("other", *parts)))
    assert sentence == f"{CONV} torch: without dgrad takes 0.6667 [0.6667, 0.6667] times as long."
    lost = replace(parts[0], status="failed", reason="crashed", seconds=None, samples=())
    assert answer(run(replace(ranked("first", *parts), results=(lost, *parts[1:])))) == []


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
