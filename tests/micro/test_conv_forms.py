"""micro.conv's questions on the forms of a layer: what is set against what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kernels.errors import UsageError
from kernels.ops.biasact.problem import BiasAct
from kernels.ops.conv.problem import Conv
from kernels.ops.norm.problem import Norm
from kernels.ops.stream.problem import Stream
from kernels.ops.transpose.problem import Transpose
from kernels.problem import Problem
from micro.contests.conv_forms import same
from tests.micro.plans import contests


@pytest.fixture(autouse=True)
def no_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)


# Layouts


def test_every_layer_of_whole_blocks_is_relaid() -> None:
    cases = [case for x in contests("conv", "--relayout", "--all") for case in x.cases]
    every = {case.problem.c for case in cases if isinstance(case.problem, Conv)}
    assert {96, 512} <= every and all(c % 16 == 0 for c in every)


# The first layer


def test_what_takes_no_strides_is_no_first_layer() -> None:
    assert not any("winograd" in case.variant for x in contests("conv", "--first") for case in x.cases)
    with pytest.raises(UsageError, match="--variant winograd-4x3"):
        contests("conv", "--first", "--variant", "winograd-4x3")


# A bias


# Padding


@pytest.mark.parametrize(
    "size, taps, stride, before, behind", [(224, 7, 2, 2, 3), (224, 3, 2, 0, 1), (223, 3, 2, 1, 1), (13, 4, 1, 1, 2)]
)
def test_same_is_tensorflows(size: int, taps: int, stride: int, before: int, behind: int) -> None:
    padded = same(Conv(1, 3, size, size, 8, taps, taps, stride, pad=1))
    assert (padded.pad_top, padded.pad_left, padded.pad_bottom, padded.pad_right) == (before, before, behind, behind)
    assert padded.outputs_of_image == (-(-size // stride)) ** 2


# The allocator


def test_a_heap_is_no_axis_of_its_own_question(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"^--heap keep: --heap-cost compares the policies"):
        contests("conv", "--heap-cost", "--heap", "keep")
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "4")
    for one in contests("conv", "--heap-cost", "--variant", "direct"):
        usual, keep = one.cases
        assert usual.skip is None and str(keep.skip).startswith("--heap keep: MALLOC_MMAP_MAX_ in this environment")


# Filters of one element


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


def test_what_is_beside_the_layers_is_repeated_by_its_axes() -> None:
    axes: Mapping[tuple[str, ...], type[Problem]] = {
        ("--rows", "8", "--cols", "4"): Transpose,
        ("--kind", "copy", "--size", "128"): Stream,
        ("--phase", "forward", "--rows", "8", "--cols", "4"): BiasAct,
        ("--images", "2", "--maps", "4", "--size", "8"): Norm,
    }
    for words, kind in axes.items():
        assert {type(case.problem) for x in contests("conv", *words) for case in x.cases} == {kind}
