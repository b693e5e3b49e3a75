"""Our own direct kernel and im2col: shapes that their blocks divide badly, what they need, what they refuse."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.errors import Unavailable, WrongResult
from kernels.ops.conv import direct, im2col
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker import check as checking
from tests.kernels.rows import CPU

ROWS = {row.name: row for row in (*im2col.ROWS, *direct.ROWS)}
SMALL = Conv(2, 5, 7, 9, 6, pad_top=1, pad_left=1, pad_bottom=1, pad_right=1)


def test_a_sum_of_many_terms_in_a_row_may_be_off_by_more() -> None:
    """82 944 of them: 1.06 times what shorter ones may be."""
    problem = Conv(1, 1024, 9, 9, 32, 9, 9, pad=4)
    x = problem.fill(np.random.default_rng(2))
    buffers = [*x.values(), np.zeros(problem.outputs[0].shape, np.float32)]
    ROWS["direct"].prepare(problem, CPU, Setting())(buffers).call()
    (evidence,) = problem.compare(x, {"y": buffers[2]}, ROWS["direct"].u(problem), "dense")
    assert np.all(evidence.error < 0.5 * evidence.bound)


def test_columns_fill_the_workspace_and_no_more() -> None:
    layer = Conv(16, 96, 27, 27, 256, 5, 5, pad_top=2, pad_left=2, pad_bottom=2, pad_right=2)
    plain, few = Setting(), Setting(workspace=96_000)
    assert im2col.workspace(layer, plain, im2col.whole_image) == 4 * 96 * 25 * 27 * 27
    assert im2col.workspace(layer, plain, im2col.limited) == 4 * 96 * 25 * 48  # three times 16 outputs: 450 KiB
    assert im2col.workspace(layer, few, im2col.limited) == 4 * 96 * 25 * 10
    grouped = replace(layer, groups=2)
    assert im2col.workspace(grouped, plain, im2col.whole_image) == 4 * 48 * 25 * 27 * 27
    large = replace(layer, c=8192, groups=1)  # a column of 800 KiB
    assert im2col.limited(large, plain) == 1
    with pytest.raises(Unavailable, match=r"columns: --workspace 819200$"):
        im2col.workspace(large, few, im2col.limited)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_workspace_is_said(row: Variant[Any]) -> None:
    problem = replace(SMALL, r=1, s=1, pad=0, pad_top=0, pad_left=0, pad_bottom=0, pad_right=0)
    buffers = [np.zeros(operand.shape, np.float32) for operand in problem.operands()]
    launch = row.prepare(problem, CPU, Setting())(buffers)
    assert launch.entry is not None
    assert (launch.workspace == 0) == (row.name == "gemm-1x1")


@pytest.mark.parametrize(
    ("name", "change", "remedy"),
    [
        ("im2col", {"c": 16, "k": 16, "layout": "nchw16c"}, "--layout nchw or nhwc"),
        ("gemm-1x1", {}, "--r 1 --s 1 --stride 1"),
        ("gemm-1x1", {"r": 1, "s": 1}, "--pad-top 0"),
        ("gemm-1x1", {"r": 1, "s": 1, "stride": 2}, "--stride 1"),
    ],
)
def test_refusals_name_the_option(name: str, change: dict[str, Any], remedy: str) -> None:
    assert remedy in (ROWS[name].accepts(replace(SMALL, **change)) or "")


def test_one_thread() -> None:
    for row in ROWS.values():
        several = row.name == "direct" and SMALL.direction != "wgrad"  # of which each has images of its own
        with nullcontext() if several else pytest.raises(Unavailable, match="--threads 1"):
            row.prepare(SMALL, CPU, Setting(threads=2))


def test_work_of_direct_is_inside_the_image_and_of_im2col_nominal() -> None:
    assert ROWS["direct"].executed(SMALL).flops == SMALL.inside < SMALL.flops
    assert ROWS["im2col"].executed(SMALL).flops == SMALL.flops


@pytest.mark.parametrize("direction", PASSES)
@pytest.mark.parametrize(
    "wrong",
    [{"pad": 0, "pad_top": 0, "pad_bottom": 2}, {"pad": 0, "pad_left": 2, "pad_right": 0}],
    ids=["a row too far down", "a column too far left"],
)
def test_padding_off_by_one_is_refused(direction: str, wrong: dict[str, Any]) -> None:
    problem = replace(SMALL, direction=direction)
    for row in (ROWS["direct"], ROWS["im2col"]):
        bind = row.prepare(replace(problem, **wrong), CPU, Setting())
        with pytest.raises(WrongResult):
            checking.check(CPU, problem, row, bind, 3)


@pytest.mark.parametrize("direction", PASSES)
@pytest.mark.parametrize("name", ["direct", "im2col"])
def test_nothing_is_kept_between_calls(name: str, direction: str) -> None:
    """The second call's inputs are others, in the same places."""
    problem = replace(SMALL, direction=direction)
    rng = np.random.default_rng(5)
    buffers = [np.empty(operand.shape, np.float32) for operand in problem.operands()]
    launch = ROWS[name].prepare(problem, CPU, Setting())(buffers)
    for _ in range(2):
        x = problem.fill(rng)
        for operand, buffer in zip(problem.operands()[:2], buffers, strict=False):
            buffer[...] = x[operand.name]
        launch.call()
        result = problem.operands()[2].name
        (evidence,) = problem.compare(x, {result: buffers[2]}, ROWS[name].u(problem), "dense")
        assert np.all(evidence.error <= evidence.bound)
