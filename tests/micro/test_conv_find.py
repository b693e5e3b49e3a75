"""micro.conv --find: what is tried, what is measured again, and what is said of it."""

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
from micro.planning.benchmark import Request
from micro.planning.options import request
from micro.planning.request import planned
from tests.build import contested, layer, ranked, run
from tests.micro.plans import contests

LAYER = Conv(16, 64, 27, 27, 64, 3, 3, pad=1)
ASKED = Request("conv", {}, ("torch",), (Setting(),), frozenset())


@pytest.mark.parametrize(("batch", "last"), [("", {8}), ("7", {3}), ("1", set())])
def test_the_last_batch_is_half_a_batch(batch: str, last: set[int]) -> None:
    words = ("--n", batch) if batch else ()
    sizes = {one.cases[0].problem.n for one in contests("conv", "--find", *words) if one.name.startswith("changing/")}  # type: ignore[attr-defined]
    assert sizes - {1} == last


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


def test_what_is_measured_again_keeps_setting_and_device() -> None:
    searched = contested("find", LAYER, {"torch": 10, "direct": 8})
    (compared,) = searched.comparisons
    words = {"baseline": compared.baseline, "contender": compared.contender}
    two = {name: text.replace("threads:1", "threads:2") for name, text in words.items()}
    results = tuple(replace(x, name=x.name.replace("threads:1", "threads:2")) for x in searched.results)
    threaded = run(replace(searched, results=results, comparisons=(replace(compared, **two),)))  # type: ignore[arg-type]
    (contest,) = conv_find.refine(ASKED, threaded)
    assert [case.setting for case in contest.cases] == [Setting(2), Setting(2)]
    assert conv_find.refine(replace(ASKED, settings=(Setting(device="fake"),)), threaded) == []


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


def test_loading_a_library_is_no_part_of_a_search() -> None:
    """The first preparation counts as the next one."""
    searched = [
        contested("changing", replace(LAYER, h=h), {"torch": 10, "direct": 11}, {"direct": setup})
        for h, setup in ((30, 5.0), (40, 0.7), (50, 0.5))
    ]
    ends = [sentence.rpartition("to try them took ")[2] for sentence in answer(run(*searched))]
    assert ends == ["742 ms.", "742 ms.", "542 ms."]


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


def test_a_question_takes_one_limit_of_the_workspace() -> None:
    meant, arguments = request(conv.BENCHMARK, "conv", ("--fft", "--workspace", "0,1MiB"), raising=True)
    with pytest.raises(UsageError, match=r"^--workspace 0,1048576: --fft takes one of them$"):
        planned(meant, "conv", arguments)
