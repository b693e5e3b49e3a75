"""micro.conv --pareto: which limits meet, and what nothing beats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.errors import UsageError
from kernels.ops.conv.problem import Conv
from kernels.setting import Setting
from micro import conv
from micro.contests import conv_pareto
from micro.contests.conv_pareto import frontier
from micro.planning.benchmark import Request
from micro.planning.contest import Contest
from micro.planning.options import request
from micro.planning.request import planned
from tests.micro.plans import contests
from tests.micro.runs import contest, result, run

LAYER = Conv(16, 64, 27, 27, 64, 3, 3, pad=1)
ASKED = Request("conv", {}, ("torch",), (Setting(),), frozenset())
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


def test_a_named_pass_is_that_of_all_layers() -> None:
    cases = [case for x in contests("conv", "--pareto", "--direction", "dgrad") for case in x.cases]
    assert {case.problem.direction for case in cases} == {"dgrad"}  # type: ignore[attr-defined]


def test_several_limits_are_this_question_s_alone() -> None:
    meant, arguments = request(conv.BENCHMARK, "conv", ("--fft", "--workspace", "0,1MiB"), raising=True)
    with pytest.raises(UsageError, match=r"^--workspace 0,1048576: --fft takes one of them$"):
        planned(meant, "conv", arguments)


EVERY = (
    result(LAYER, "torch", 10e-3, held=24 * MIB),
    result(LAYER, "direct", 12e-3),
    result(LAYER, "im2col", 9e-3, held=MIB),
    result(LAYER, "winograd-4x3", 5e-3, held=8 * MIB),
    result(LAYER, "onednn-winograd", 4.97e-3, held=40 * MIB),  # less than its margin
    result(LAYER, "fft-scipy", 30e-3, held=285 * MIB),
    result(LAYER, "gemm-1x1", 12.5e-3),
)


def test_what_nothing_beats() -> None:
    assert [x.variant for x in frontier(contest("pareto", *EVERY))] == ["direct", "im2col", "winograd-4x3"]
    faster = replace(EVERY[4], seconds=replace(EVERY[4].seconds, median=4.9e-3))  # type: ignore[type-var]
    assert frontier(contest("pareto", *EVERY[:4], faster))[-1].variant == "onednn-winograd"
    assert [x.variant for x in frontier(contest("pareto", *EVERY[1:2]))] == ["direct"]


def test_each_step_is_measured_again_against_the_one_before() -> None:
    (one,) = conv_pareto.refine(ASKED, run(contest("pareto", *EVERY), contest("find", *EVERY)))
    assert one.name == f"steps/{LAYER.name}"
    assert [case.variant for case in one.cases] == ["direct", "im2col", "winograd-4x3"]
    assert one.comparisons == ((0, 1), (1, 2))
    assert conv_pareto.refine(ASKED, run(contest("pareto", *EVERY[1:2]))) == []
