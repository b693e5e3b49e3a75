"""Every kernel that is installed on shapes that few kernels are written for: right, or refused by an option."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import replace

import pytest

from kernels.errors import Unavailable
from kernels.ops.conv import fft, im2col, tiled
from kernels.ops.conv.layouts import BLOCK, LAYOUTS
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.variant import Variant
from tests.kernels.rows import checked, kernels

SHAPES = {
    "filters of even edges": Conv(2, 6, 9, 8, 10, 2, 4),
    "even edges, padded more behind": Conv(2, 16, 9, 9, 16, 4, 4, pad_top=1, pad_left=1, pad_bottom=2, pad_right=2),
    "a filter for each channel": Conv(2, 16, 9, 11, 16, pad=1, groups=16),
    "two filters for each channel": Conv(2, 8, 9, 7, 16, pad=1, groups=8),
    "groups": Conv(2, 32, 9, 7, 48, pad=1, groups=2),
    "dilation": Conv(2, 16, 12, 11, 32, pad=2, dilation=2),
    "dilation and stride": Conv(2, 5, 17, 16, 7, stride=3, pad_top=2, pad_left=4, dilation=2),
    "stride 2 on 1×1": Conv(2, 32, 9, 10, 16, 1, 1, stride=2),
    "stride 3 on 2×2, which leaves pixels out": Conv(1, 3, 10, 11, 4, 2, 2, stride=3),
    "N = C = H = W = K": Conv(7, 7, 7, 7, 7, pad=1),
    "N = C = H = W = K, whole blocks": Conv(16, 16, 16, 16, 16, pad=1),
    "N = C = H = W = K = R = S": Conv(3, 3, 3, 3, 3, pad=1),
    "one pixel": Conv(2, 16, 1, 1, 16, 1, 1),
    "one pixel in its padding": Conv(2, 16, 1, 1, 32, pad=1),
    "one of everything": Conv(1, 1, 1, 1, 1, 1, 1),
    "padding beyond half a filter": Conv(2, 16, 5, 6, 16, pad=2),
    "padding beyond a filter": Conv(1, 3, 3, 2, 2, pad_top=5, pad_left=3, pad_bottom=4, pad_right=6),
    "one row": Conv(2, 4, 1, 40, 5, 1, 7, pad_left=3, pad_right=3),
    "higher than wide": Conv(2, 16, 31, 5, 16, 7, 1, pad_top=3, pad_bottom=3),
    "padded behind alone, at stride 2": Conv(2, 3, 16, 16, 16, stride=2, pad_bottom=1, pad_right=1),
    "four paddings": Conv(2, 16, 9, 8, 16, pad_top=0, pad_left=1, pad_bottom=2, pad_right=1),
    "a filter as large as its image": Conv(2, 8, 7, 7, 16, 7, 7),
    "tiles that overhang by one": Conv(3, 5, 13, 17, 19, pad=1),
    "several blocks of planes": Conv(3, 5, 30, 25, 11, 5, 3, pad_left=1, pad_bottom=2, pad_right=3),
    "many rows, bands": Conv(1, 9, 41, 40, 10, pad=1),
    "more channels than stay in a cache": Conv(1, 150, 4, 5, 33, pad=1),
    "rows of a whole number of lines": Conv(1, 17, 3, 64, 17, 1, 1),
    "images smaller than the filter": Conv(3, 2, 1, 2, 5, 4, 5, pad=2),
    "two and five outputs a group": Conv(2, 6, 19, 21, 15, pad_top=1, pad_right=1, groups=3),
    "a first layer": Conv(1, 3, 23, 24, 18, 5, 5, stride=2, pad=2),
    "whole vectors": Conv(2, 16, 9, 18, 32, pad_left=1, pad_bottom=2),
}
FEW = ("four paddings", "dilation", "several blocks of planes", "whole vectors", "one of everything")
ROWS = [row for row in kernels(Conv.op) if not row.missing()]


@pytest.mark.parametrize(
    ("row", "name"),
    [(row, name) for row in ROWS for name in (SHAPES if row.roles else FEW)],
    ids=lambda x: getattr(x, "name", x),
)
def test_kernels_are_right_or_refuse(row: Variant[Conv], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, most, value in ((fft, "BLOCK", 1 << 14), (im2col, "LIMIT", 4096), (tiled, "NEAR", 0)):
        monkeypatch.setattr(module, most, value)  # so that there are several blocks, the last not full
    monkeypatch.setattr(tiled, "LEAST", 5)
    shape = SHAPES[name]
    whole = shape.c % BLOCK == shape.k % BLOCK == 0 and shape.groups == 1
    for layout, direction in itertools.product(LAYOUTS if whole else LAYOUTS[:2], PASSES):
        problem = replace(shape, layout=layout, direction=direction)
        if why := row.accepts(problem):
            assert "--" in why
            continue
        with suppress(Unavailable):  # a library's own reason, of this processor
            checked(problem, row)


def test_each_is_done_by_some_kernel_of_ours() -> None:
    for shape, direction in itertools.product(SHAPES.values(), PASSES):
        problem = replace(shape, direction=direction)
        assert [row for row in kernels(Conv.op) if row.provider == "suite" and not row.accepts(problem)]
