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
from tests.kernels.rows import checked
from tests.soak.conv import ODD, kernels

SHAPES = (
    "even edges, padded more behind",
    "stride 2 on 1×1",
    "N = C = H = W = K = R = S",
    "one pixel in its padding",
    "one of everything",
    "padding beyond a filter",
    "a filter as large as its image",
)
ROWS = [row for row in kernels() if not row.missing() and "estimate" not in row.name]


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
        assert [row for row in kernels() if row.provider == "suite" and not row.accepts(problem)]
