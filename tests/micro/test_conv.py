"""micro.conv: which rivals meet on which layers, and forms of a layer as axes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest

from kernels.catalog import find
from kernels.errors import UsageError
from kernels.ops.conv.problem import Conv
from micro import conv
from micro.planning.benchmark import NothingWritten
from tests.micro.plans import contests

ON_A_GPU = {  # what each of these questions sets against each other there
    "algorithms": {"cudnn-implicit-gemm", "cudnn-algo-1", "cudnn-find", "cuda-im2col", "cuda-winograd-4x3", "cufft"},
    "fft": {"cudnn-implicit-gemm", "cuda-implicit", "cudnn-fft", "cudnn-fft-tiling", "cufft", "cufft-kept:8"},
    "winograd": {"cudnn-winograd", "cudnn-winograd-nonfused", "cuda-winograd-2x3", "cuda-implicit"},
    "passes": {"cudnn-find", "cuda-implicit"},
    "layouts": {"cudnn-precomp-gemm", "cudnn-algo-0"},
    "engines": {
        "cudnn-guessed",
        "cudnn-find:fma",
        "cudnn-plan:a",
        "cudnn-engine:70",
        "cudnn-engine:74",
        "cudnn-engine:17",
    },
}


@pytest.mark.parametrize("question", ON_A_GPU)
def test_a_gpu_has_its_own_rows_in_a_question(question: str) -> None:
    """They can all be run but for what a pass lacks, and no other device's are among them."""
    cases = [case for x in contests("conv", f"--{question}", "--device", "fake:cuda") for case in x.cases]
    assert ON_A_GPU[question] <= {case.variant for case in cases if case.skip is None}
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


def test_a_named_batch_holds_everywhere() -> None:
    assert {case.problem.n for x in contests("conv", "--winograd", "--n", "2") for case in x.cases} == {2}  # type: ignore[attr-defined]


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


def test_one_layout_is_no_question() -> None:
    with pytest.raises(UsageError, match="--layout nchw"):
        contests("conv", "--layouts", "--layout", "nchw")


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
        (("--layout", "nchw,nhwc", "--vary", "layout"), "layout", ["nchw", "nhwc"]),
        (("--layout", "nchw,nhwc"), "layout", ["nchw", "nhwc"]),
        (("--pad-top", "1,2"), "pad_top", [1, 2]),
        (("--pad-left", "1,2"), "pad_left", [1, 2]),
        (("--pad-bottom", "1,2"), "pad_bottom", [1, 2]),
        (("--pad-right", "1,2"), "pad_right", [1, 2]),
        (("--groups", "1,2", "--vary", "groups"), "groups", [1, 2]),
    ],
)
def test_forms_are_axes_with_several_values(words: tuple[str, ...], field: str, values: Sequence[object]) -> None:
    every = contests("conv", *words, "--direction", "forward")
    assert [*dict.fromkeys(vars(case.problem)[field] for x in every for case in x.cases)] == values
    assert not {x.name.partition("/")[0] for x in every} - {"conv"}


def test_a_heap_is_a_setting_with_several_values() -> None:
    words = ("--heap", "default,keep", "--vary", "heap", "--variant", "torch", "--direction", "forward")
    (one,) = contests("conv", *words)
    assert [case.setting.heap for case in one.cases] == ["default", "keep"]
