"""micro.conv --find and --pareto: what is tried, what is measured again, and what is said of it."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace

import pytest

from kernels.errors import UsageError
from kernels.ops.conv.problem import Conv
from kernels.setting import Setting
from micro import conv
from micro.answers.conv_find import CALLS, answer
from micro.contests import conv_find
from micro.contests.conv_find import frontier
from micro.planning.benchmark import Request
from micro.planning.contest import Contest
from micro.planning.options import request
from micro.planning.request import planned
from tests.build import contested, layer, ranked, run
from tests.micro.plans import contests

LAYER = Conv(16, 64, 27, 27, 64, 3, 3, pad=1)
ASKED = Request("conv", {}, ("torch",), (Setting(),), frozenset())


def test_the_last_batch_is_half_a_batch() -> None:
    for words, last in (((), {8}), (("--n", "7"), {3}), (("--n", "1"), set())):
        changing = [one for one in contests("conv", "--find", *words) if one.name.startswith("changing/")]
        assert {one.cases[0].problem.n for one in changing} - {1} == last  # type: ignore[attr-defined]


def test_the_fastest_is_measured_again_with_the_default_against_it() -> None:
    slower, faster = replace(LAYER, c=32), replace(LAYER, direction="dgrad")
    searched = run(
        contested("find", LAYER, {"torch": 10, "im2col": 9, "direct": 8}),
        contested("find", slower, {"torch": 10, "im2col": 11}),
        contested("changing", faster, {"torch": 10, "im2col": 9}),
        contested("other", LAYER, {"torch": 10, "im2col": 9}),
    )
    first, second = conv_find.refine(ASKED, searched)
    assert first.name == f"regret/{LAYER.name}" and second.name == f"regret/{faster.name}"
    assert [case.variant for case in first.cases] == ["direct", "torch"]
    assert first.comparisons == ((0, 1),)


def again(problem: Conv, best: str, after: float, default: float, half: float = 0.01) -> object:
    return ranked("regret", layer(problem, best, 1e-3 * after), layer(problem, "torch", 1e-3 * default), half=half)


def test_what_is_said_is_the_ratio_of_the_fresh_rounds_and_when_a_search_pays() -> None:
    times, setups = {"torch": 10.0, "direct": 8.0, "im2col": 12.0}, {"torch": 9.0, "direct": 0.02, "im2col": 0.03}
    (sentence,) = answer(run(contested("find", LAYER, times, setups), again(LAYER, "direct", 8, 9.6)))  # type: ignore[arg-type]
    cost = 0.05 + CALLS * 0.030  # its own plan is the default's to make, search or no search
    gain = 0.010 * (1 - 1 / 1.2)
    low, high = 0.010 * (1 - 1 / 1.188), 0.010 * (1 - 1 / 1.212)
    assert sentence == (
        "forward, 3×3, 64→64 channels, 27×27, batch 16: torch takes 1.200 [1.188, 1.212] times what direct takes, the "
        f"fastest of 3 (1.25 in the rounds that chose it); a search takes 110 ms, 50.0 ms of it to prepare, the rest 2 "
        f"calls of each, and pays after {cost / gain:.0f} calls [{cost / high:.0f}, {cost / low:.0f}]."
    )


def test_what_is_not_faster_in_fresh_rounds_never_pays_for_certain() -> None:
    searched = contested("find", LAYER, {"torch": 10, "direct": 9})
    (sentence,) = answer(run(searched, again(LAYER, "direct", 9, 9.05)))  # type: ignore[arg-type]
    assert sentence.endswith("that it ever pays is not certain.")
    (sentence,) = answer(run(searched))
    assert sentence.endswith("in the rounds that chose it; in fresh ones it was not measured.")
    (sentence,) = answer(run(contested("find", LAYER, {"torch": 10, "direct": 11})))
    assert sentence.endswith("of 2 none was faster than torch; to try them took 42.0 ms.")


def test_the_regret_of_all_is_of_fresh_rounds() -> None:
    """Ten kernels alike, by simulated noise: the luckiest seems faster, and is not."""
    rng = random.Random(3)
    layers = [replace(LAYER, c=16 * (i + 1)) for i in range(30)]
    every = []
    for one in layers:
        names = ["torch", *(f"winograd-{i}" for i in range(9))]
        times = {name: 10 * rng.lognormvariate(0, 0.03) for name in names}
        every.append(contested("find", one, times))
        best = min(times, key=lambda name: times[name])
        if best != "torch":
            every.append(again(one, best, 10 * rng.lognormvariate(0, 0.01), 10 * rng.lognormvariate(0, 0.01)))  # type: ignore[arg-type]
    chosen = [max(x.ratio or 0.0 for x in one.comparisons) for one in every if one.contest.startswith("regret/")]
    sentence = answer(run(*every))[0]
    middle = float(sentence.partition("median ")[2].partition(",")[0])
    assert abs(middle - 1) < 0.02 and abs(statistics.median(chosen) - 1) < 0.02
    lucky = [1 / (x.ratio or 1.0) for one in every if one.contest.startswith("find/") for x in one.comparisons]
    assert statistics.median(sorted(lucky)[-30:]) > 1.04


MIB = 1 << 20


def limits(one: Contest) -> dict[str, list[int | None]]:
    by_variant: dict[str, list[int | None]] = {}
    for case in one.cases:
        by_variant.setdefault(case.variant, []).append(case.setting.workspace)
    return by_variant


def test_named_limits_hold_for_all() -> None:
    one = contests("conv", "--pareto", "--workspace", "0,256KiB,1MiB")[0]
    by_variant = limits(one)
    assert by_variant.pop("im2col-blocks") == [MIB, MIB // 4]  # 0 has room for no column
    assert set(map(tuple, by_variant.values())) == {(MIB,)}
    assert {x.setting.workspace for x in contests("conv", "--pareto", "--workspace", "2MiB")[0].cases} == {2 * MIB}
    assert contests("conv", "--pareto", "--workspace", "unlimited") == contests("conv", "--pareto")
    assert None in limits(contests("conv", "--pareto", "--workspace", "1MiB,unlimited")[0])["direct"]


def test_several_limits_are_this_question_s_alone() -> None:
    meant, arguments = request(conv.BENCHMARK, "conv", ("--fft", "--workspace", "0,1MiB"), raising=True)
    with pytest.raises(UsageError, match=r"^--workspace 0,1048576: --fft takes one of them$"):
        planned(meant, "conv", arguments)


EVERY = (
    layer(LAYER, "torch", 10e-3, held=24 * MIB),
    layer(LAYER, "direct", 12e-3),
    layer(LAYER, "im2col", 9e-3, held=MIB),
    layer(LAYER, "winograd-4x3", 5e-3, held=8 * MIB),
    layer(LAYER, "onednn-winograd", 4.97e-3, held=40 * MIB),  # less than its margin
    layer(LAYER, "fft-scipy", 30e-3, held=285 * MIB),
    layer(LAYER, "gemm-1x1", 12.5e-3),
)


def test_what_nothing_beats() -> None:
    assert [x.variant for x in frontier(ranked("pareto", *EVERY))] == ["direct", "im2col", "winograd-4x3"]
    faster = replace(EVERY[4], seconds=replace(EVERY[4].seconds, median=4.9e-3))  # type: ignore[type-var]
    assert frontier(ranked("pareto", *EVERY[:4], faster))[-1].variant == "onednn-winograd"
    assert [x.variant for x in frontier(ranked("pareto", *EVERY[1:2]))] == ["direct"]


def test_each_step_is_measured_again_against_the_one_before() -> None:
    (one,) = conv_find.refine_pareto(ASKED, run(ranked("pareto", *EVERY), ranked("find", *EVERY)))
    assert one.name == f"steps/{LAYER.name}"
    assert [case.variant for case in one.cases] == ["direct", "im2col", "winograd-4x3"]
    assert one.comparisons == ((0, 1), (1, 2))
    assert conv_find.refine_pareto(ASKED, run(ranked("pareto", *EVERY[1:2]))) == []
