"""micro.conv's questions on the forms of a layer: what is set against what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kernels.errors import UsageError
from kernels.ops.biasact.problem import BiasAct
from kernels.ops.conv.problem import Conv
from kernels.ops.norm.problem import Norm
from kernels.ops.stream.problem import Stream
from kernels.ops.transpose.problem import Transpose
from kernels.problem import Problem
from micro import conv
from micro.contests.conv_forms import same
from micro.planning.contest import Contest
from micro.planning.options import request
from micro.planning.request import planned


@pytest.fixture(autouse=True)
def no_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)


def contests(*words: str) -> tuple[Contest, ...]:
    meant, arguments = request(conv.BENCHMARK, "conv", words, raising=True)
    return planned(meant, "conv", arguments).contests


def by_word(*words: str) -> dict[str, list[Contest]]:
    """Contests by the first word of their names."""
    sorts: dict[str, list[Contest]] = {}
    for one in contests(*words):
        sorts.setdefault(one.name.partition("/")[0], []).append(one)
    return sorts


def fields(contest: Contest, *names: str) -> list[tuple[Any, ...]]:
    """Of each case its variant and these fields of its problem."""
    return [(case.variant, *(vars(case.problem)[name] for name in names)) for case in contest.cases]


# Layouts


def test_conversions_meet_their_kernel_without_them_and_one_that_needs_none() -> None:
    sorts = by_word("--relayout", "--direction", "dgrad", "--n", "2")["relayout"]
    assert [fields(x, "layout", "direction", "n") for x in sorts[:2]] == [
        [("torch", "nhwc", "dgrad", 2), ("torch-relayout", "nchw", "dgrad", 2), ("torch", "nchw", "dgrad", 2)],
        [
            ("onednn-direct", "nchw16c", "dgrad", 2),
            ("onednn-direct", "nchw", "dgrad", 2),
            ("onednn-gemm", "nchw", "dgrad", 2),
        ],
    ]
    assert sorts[0].comparisons == ((0, 1), (2, 1))


def test_a_transposition_meets_a_copy_of_its_bytes() -> None:
    *_, alone = contests("--relayout", "--n", "2")
    copy, *turns = (case.problem for case in alone.cases)
    assert isinstance(copy, Stream) and copy.kind == "copy" and alone.cases[0].variant == "memcpy"
    assert turns and all(isinstance(x, Transpose) and x.bytes == copy.bytes for x in turns)
    assert vars(turns[0]) == {"rows": 256, "cols": 2 * 56 * 56}


def test_every_layer_of_whole_blocks_is_relaid() -> None:
    every = {
        case.problem.c for x in contests("--relayout", "--all") for case in x.cases if isinstance(case.problem, Conv)
    }
    assert {96, 512} <= every and all(c % 16 == 0 for c in every)


# The first layer


def test_a_first_layer_has_all_three_passes_in_one_contest() -> None:
    every = contests("--first", "--variant", "direct,im2col")
    assert {x.cases[0].variant for x in every} == {"direct", "im2col"}
    for one in every:
        assert [direction for _, direction in fields(one, "direction")] == ["forward", "dgrad", "wgrad"]
        assert {c for _, c in fields(one, "c")} == {3}


def test_what_takes_no_strides_is_no_first_layer() -> None:
    assert not any("winograd" in case.variant for x in contests("--first") for case in x.cases)
    with pytest.raises(UsageError, match="--variant winograd-4x3"):
        contests("--first", "--variant", "winograd-4x3")


# A bias


def test_a_bias_meets_its_normalization() -> None:
    for one in contests("--bias-before-norm", "--n", "2"):
        kinds = [(case.problem.op, case.variant) for case in one.cases]
        pair = [("conv", "torch"), ("conv", "torch-bias")]
        assert kinds == [*pair, *pair, ("norm", "torch"), ("biasact", "c")]
        layer, norm, alone = (one.cases[i].problem for i in (0, 4, 5))
        assert isinstance(layer, Conv) and isinstance(norm, Norm) and isinstance(alone, BiasAct)
        assert norm.count == alone.count == 2 * layer.k * layer.outputs_of_image
        assert one.comparisons == ((0, 1), (2, 3))


# Padding


@pytest.mark.parametrize(
    "size, taps, stride, before, behind", [(224, 7, 2, 2, 3), (224, 3, 2, 0, 1), (223, 3, 2, 1, 1), (13, 4, 1, 1, 2)]
)
def test_same_is_tensorflows(size: int, taps: int, stride: int, before: int, behind: int) -> None:
    padded = same(Conv(1, 3, size, size, 8, taps, taps, stride, pad=1))
    assert (padded.pad_top, padded.pad_left, padded.pad_bottom, padded.pad_right) == (before, before, behind, behind)
    assert padded.outputs_of_image == (-(-size // stride)) ** 2


def test_padding_is_an_operation_a_side_or_none() -> None:
    sorts = by_word("--pad-op")
    assert {tuple(name for (name,) in fields(x)) for x in sorts["pad-op"]} == {("torch", "torch-pad")}
    assert {direction for x in sorts["pad-op"] for _, direction in fields(x, "direction")} == {
        "forward",
        "dgrad",
        "wgrad",
    }
    sides = {tuple(name for (name,) in fields(x)) for x in sorts["pad-sides"]}
    assert {("torch", "torch-pad"), ("direct", "direct")} <= sides
    for one in sorts["pad-sides"]:
        (_, *even), (_, *odd) = fields(one, "pad_top", "pad_bottom")
        assert even[0] == even[1] and odd[1] == odd[0] + 1
    assert all(x.differs == "work: differs (padding)" for x in sorts["pad-none"])
    assert [pads for _, *pads in fields(sorts["pad-none"][0], "pad_top", "pad_right")] == [[2, 2], [0, 0]]


# The allocator


def test_what_allocates_meets_itself_with_another_heap() -> None:
    every = contests("--heap-cost")
    assert {case.variant for x in every for case in x.cases} == {"torch", "torch-im2col"}
    assert {tuple(case.setting.heap for case in x.cases) for x in every} == {("default", "keep")}
    assert {case.problem.r for x in every for case in x.cases if isinstance(case.problem, Conv)} == {1, 7}


def test_a_heap_is_no_axis_of_its_own_question(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"^--heap keep: --heap-cost compares the policies"):
        contests("--heap-cost", "--heap", "keep")
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "4")
    for one in contests("--heap-cost", "--variant", "direct"):
        usual, keep = one.cases
        assert usual.skip is None and str(keep.skip).startswith("--heap keep: MALLOC_MMAP_MAX_ in this environment")


# Filters of one element


def test_a_product_meets_sums_at_one_by_one() -> None:
    for one in by_word("--one-by-one")["1x1"]:
        assert one.cases[0].variant == "gemm-1x1" and {r for _, r in fields(one, "r")} == {1}
        assert {"direct", "torch"} <= {case.variant for case in one.cases}


def test_a_blocks_stride_is_on_either_layer() -> None:
    (one,) = by_word("--one-by-one", "--variant", "direct")["stride"]
    forward = one.cases[:4]
    assert {direction for _, direction in fields(one, "direction")} == {"forward", "dgrad", "wgrad"}
    assert one.comparisons[:2] == ((0, 2), (1, 3))
    assert [(vars(x.problem)["r"], vars(x.problem)["stride"], vars(x.problem)["h"]) for x in forward] == [
        (1, 1, 56),
        (3, 2, 56),
        (1, 2, 56),
        (3, 1, 28),
    ]
    late, early = (sum(x.problem.flops for x in forward[i : i + 2]) for i in (0, 2))
    assert early / late == pytest.approx(0.647, abs=0.001)
    assert len(by_word("--one-by-one", "--variant", "direct", "--all")["stride"]) == 3


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
    every = contests(*words, "--direction", "forward")
    assert [*dict.fromkeys(vars(case.problem)[field] for x in every for case in x.cases)] == values
    assert not {x.name.partition("/")[0] for x in every} - {"conv"}


def test_a_heap_is_a_setting_with_several_values() -> None:
    (one,) = contests("--heap", "default,keep", "--vary", "heap", "--variant", "torch", "--direction", "forward")
    assert [case.setting.heap for case in one.cases] == ["default", "keep"]


def test_what_is_beside_the_layers_is_repeated_by_its_axes() -> None:
    axes: Mapping[tuple[str, ...], type[Problem]] = {
        ("--rows", "8", "--cols", "4"): Transpose,
        ("--kind", "copy", "--size", "128"): Stream,
        ("--phase", "forward", "--rows", "8", "--cols", "4"): BiasAct,
        ("--images", "2", "--maps", "4", "--size", "8"): Norm,
    }
    for words, kind in axes.items():
        assert {type(case.problem) for x in contests(*words) for case in x.cases} == {kind}
