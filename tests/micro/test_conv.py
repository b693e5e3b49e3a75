"""micro.conv: rivals and forms of layers, and what --find tries, measures again and says."""

from __future__ import annotations

import contextlib
import random
import statistics
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kernels.catalog import find
from kernels.errors import UsageError
from kernels.ops.conv.problem import Conv
from kernels.setting import Setting
from micro import conv
from micro.answers.conv_find import CALLS, answer
from micro.contests import conv_find
from micro.planning.benchmark import NothingWritten, Request
from micro.planning.options import request
from micro.planning.request import planned
from tests.build import contested, layer, ranked, run
from tests.micro.plans import contests

ON_A_GPU = {  # what each of these questions sets against each other there
    "algorithms": "cudnn-implicit-gemm cudnn-algo-1 cudnn-find cuda-im2col cuda-winograd-4x3 cufft",
    "fft": "cudnn-implicit-gemm cuda-implicit cudnn-fft cudnn-fft-tiling cufft cufft-kept:8",
    "winograd": "cudnn-winograd cudnn-winograd-nonfused cuda-winograd-2x3 cuda-implicit",
    "passes": "cudnn-find cuda-implicit",
    "layouts": "cudnn-precomp-gemm cudnn-algo-0",
    "engines": "cudnn-guessed cudnn-find:fma cudnn-plan:a cudnn-engine:70 cudnn-engine:74 cudnn-engine:17",
}


@pytest.mark.parametrize("question", ON_A_GPU)
def test_a_gpu_has_its_own_rows_in_a_question(question: str) -> None:
    """They can all be run but for what a pass lacks, and no other device's are among them."""
    cases = [case for x in contests("conv", f"--{question}", "--device", "fake:cuda") for case in x.cases]
    assert set(ON_A_GPU[question].split()) <= {case.variant for case in cases if case.skip is None}
    assert not [case.skip for case in cases if case.skip and "a kernel for" in case.skip]


def test_every_engine_is_asked_by_its_number() -> None:
    every = contests("conv", "--engines", "--full", "--direction", "wgrad", "--device", "fake:cuda")
    assert {len(x.cases) for x in every} == {5 + 76, 4 + 76} and len(every) == 4
    coarse = [x for x in every if x.name.startswith("engines-tf32/")]
    assert {find("conv", case.variant).precision for x in coarse for case in x.cases} == {"tf32"}
    with pytest.raises(NothingWritten):
        contests("conv", "--engines")


@pytest.mark.parametrize("question", sorted(set(conv.BENCHMARK.questions) - set(ON_A_GPU)))
def test_the_other_questions_plan_on_a_gpu_too(question: str) -> None:
    """Or say in a line that nothing is written for it."""
    with contextlib.suppress(NothingWritten):
        contests("conv", f"--{question.replace('_', '-')}", "--device", "fake:cuda")


def test_a_network_is_asked_for_layer_by_layer() -> None:
    """In each pass that a step needs; the first layer's gradient of the image is none."""
    names = [x.name for x in contests("conv", "--net", "alexnet-s")]
    assert len(names) == 5 * 3 - 1 and not any("/conv1/" in x and "dgrad" in x for x in names)
    assert any(
        x.startswith("net/resnet-50/conv4 expand/count:6/conv/n:16/")
        for x in (y.name for y in contests("conv", "--net", "resnet-50"))
    )
    smaller = contests("conv", "--net", "alexnet-s", "--n", "2", "--direction", "dgrad")
    problems = [x.cases[0].problem for x in smaller]
    assert {(p.n, p.direction) for p in problems} == {(2, "dgrad")} and len(problems) == 4  # type: ignore[attr-defined]


def test_rivals_are_compared_with_the_first_that_can_do_a_layer() -> None:
    (refused,) = contests("conv", "--shapes", "mb1ic4ih9oc4kh5", "--variant", "winograd-4x3,direct,im2col")[:1]
    assert refused.cases[0].skip and refused.comparisons == ((1, 0), (1, 2))
    (taken,) = contests("conv", "--shapes", "mb1ic4ih9oc4kh3", "--variant", "winograd-4x3,direct,im2col")[:1]
    assert taken.comparisons == ((0, 1), (0, 2))


def test_fft_takes_a_layer_of_a_person_s_and_keeps_its_own_filters() -> None:
    every = contests("conv", "--fft", "--c", "8,16", "--h", "20", "--w", "30", "--k", "4")
    sizes = {case.problem for x in every for case in x.cases}
    filters = ((3, 1), (5, 2), (7, 3), (9, 4))
    assert sizes == {Conv(16, c, 20, 30, 4, edge, edge, pad=pad) for c in (8, 16) for edge, pad in filters}


@pytest.fixture(autouse=True)
def no_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)


# Axes


@pytest.mark.parametrize(
    "words, field, values",
    [
        ("--layout nchw,nhwc --vary layout", "layout", ["nchw", "nhwc"]),
        ("--layout nchw,nhwc", "layout", ["nchw", "nhwc"]),
        *((f"--pad-{side} 1,2", f"pad_{side}", [1, 2]) for side in ("top", "left", "bottom", "right")),
        ("--groups 1,2 --vary groups", "groups", [1, 2]),
        ("--heap default,keep --vary heap --variant torch", "heap", ["default", "keep"]),
    ],
)
def test_forms_are_axes_with_several_values(words: str, field: str, values: Sequence[object]) -> None:
    every = contests("conv", *words.split(), "--direction", "forward")
    fields = [vars(case.problem) | case.setting.values for x in every for case in x.cases]
    assert [*dict.fromkeys(x[field] for x in fields)] == values
    assert not {x.name.partition("/")[0] for x in every} - {"conv"}


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
        "forward, 3×3, 64→64 channels, 27×27, batch 16: torch takes 1.200 [1.188, 1.212] times as long as direct, "
        f"the fastest of 3 (1.25 in the rounds that chose it); a search takes 110 ms, 50.0 ms of it for preparation, "
        "the rest for 2 calls of each, "
        f"and pays off after {cost / gain:.0f} calls [{cost / high:.0f}, {cost / low:.0f}]."
    )


def test_what_is_not_faster_in_fresh_rounds_never_pays_for_certain() -> None:
    searched = contested("find", LAYER, {"torch": 10, "direct": 9})
    (sentence,) = answer(run(searched, again(LAYER, "direct", 9, 9.05)))  # type: ignore[arg-type]
    assert sentence.endswith("whether it ever pays off is not certain.")
    (sentence,) = answer(run(searched))
    assert sentence.endswith("in the rounds that chose it; not measured in fresh rounds.")
    (sentence,) = answer(run(contested("find", LAYER, {"torch": 10, "direct": 11})))
    assert sentence.endswith("none of 2 was faster than torch; the search took 42.0 ms.")


def test_loading_a_library_is_no_part_of_a_search() -> None:
    """The first preparation counts as the next one."""
    searched = [
        contested("changing", replace(LAYER, h=h), {"torch": 10, "direct": 11}, {"direct": setup})
        for h, setup in ((30, 5.0), (40, 0.7), (50, 0.5))
    ]
    ends = [sentence.rpartition("the search took ")[2] for sentence in answer(run(*searched))]
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


def test_several_limits_are_this_question_s_alone() -> None:
    meant, arguments = request(conv.BENCHMARK, "conv", ("--fft", "--workspace", "0,1MiB"), raising=True)
    with pytest.raises(UsageError, match=r"^--workspace 0,1048576: --fft allows only one value$"):
        planned(meant, "conv", arguments)


def test_a_heap_is_a_setting_with_several_values() -> None:
    words = ("--heap", "default,keep", "--vary", "heap", "--variant", "torch", "--direction", "forward")
    (one,) = contests("conv", *words)
    assert [case.setting.heap for case in one.cases] == ["default", "keep"]


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
