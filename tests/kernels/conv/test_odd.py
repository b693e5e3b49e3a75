"""Every kernel that is installed on shapes that few kernels are written for."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from kernels.errors import Unavailable
from kernels.ops.conv.problem import Conv
from kernels.variant import Variant
from tests.kernels.rows import checked, kernels

ODD = {
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
}
SHAPES = (
    "even edges, padded more behind",
    "stride 2 on 1×1",
    "N = C = H = W = K = R = S",
    "one pixel in its padding",
    "one of everything",
    "padding beyond a filter",
    "a filter as large as its image",
)
ROWS = [row for row in kernels(Conv.op) if not row.missing() and "estimate" not in row.name]


def cases() -> list[Any]:
    return [pytest.param(row, ODD[shape], id=f"{row.name}-{shape}") for shape, row in itertools.product(SHAPES, ROWS)]


@pytest.mark.parametrize(("row", "shape"), cases())
def test_kernels_are_right_or_refuse(row: Variant[Conv], shape: Conv) -> None:
    for direction in ("forward", "dgrad", "wgrad"):
        problem = replace(shape, direction=direction)
        if why := row.accepts(problem):
            assert "--" in why
            continue
        with suppress(Unavailable):  # a library's own reason, of this processor
            checked(problem, row)


def test_each_is_done_by_some_kernel_of_ours() -> None:
    for shape, direction in itertools.product(ODD.values(), ("forward", "dgrad", "wgrad")):
        problem = replace(shape, direction=direction)
        assert [row for row in kernels(Conv.op) if row.provider == "suite" and not row.accepts(problem)]
