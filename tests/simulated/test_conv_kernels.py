"""The CUDA kernels of convolutions on the CPU: at their edges, and broken."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from kernels.errors import UsageError
from kernels.ops.conv import Conv, columns, frames, implicit, winograd_cuda
from kernels.ops.conv.shape import PASSES
from tests.simulated import cases, launcher
from tests.slow import some

pytestmark = pytest.mark.skipif(launcher.missing() is not None, reason=launcher.missing() or "")
SIZES: tuple[dict[str, Any], ...] = (
    {"n": 1, "c": 1, "h": 5, "w": 1, "k": 65, "r": 2, "s": 1},
    {"n": 3, "c": 4, "h": 8, "w": 9, "k": 6, "r": 1, "s": 3, "stride": 3, "pad_left": 2, "groups": 2},
    {"n": 1, "c": 2, "h": 70, "w": 3, "k": 2, "r": 5, "s": 3, "pad": 3, "dilation": 2},
    {"n": 2, "c": 17, "h": 4, "w": 4, "k": 3, "pad_bottom": 1},
)


@pytest.mark.parametrize(("size", "direction"), [*itertools.product(range(len(SIZES)), PASSES)])
def test_sums_at_the_edges(size: int, direction: str) -> None:
    problem = Conv(**SIZES[size], direction=direction)
    for how in ({"align": 16}, {"align": 4, "backward": True}):
        assert cases.run(cases.find(implicit.kernel(problem)), problem, **how).allowed


BARRIER = "        __syncthreads();\n"
BROKEN = [
    ("implicit_forward", f"{BARRIER}#pragma", "#pragma"),
    ("implicit_forward", f"{BARRIER}    }}\n#pragma", "    }\n#pragma"),
    ("implicit_forward", "* p.stride - p.top", "* p.stride"),
    ("implicit_forward", "tap / p.s * p.dilation;\n    int col = result", "tap / p.s;\n    int col = result"),
    ("implicit_forward", "row >= 0 && row < p.h &&", "row < p.h &&"),
    ("implicit_forward", "w[(index_t)(group * p.k + row) * depth() + t]", "w[row * depth() + t]"),
    ("implicit_forward", "j + col < cols && l + b < depth", "l + b < depth"),
    ("implicit_forward", "i + row < rows && l + a < depth", "l + a < depth"),
    ("implicit_forward", "row < rows && col < cols)", "col < cols)"),
    ("implicit_dgrad", "|| row % p.stride || col % p.stride", "|| col % p.stride"),
    ("implicit_dgrad", "return row < p.down && col < p.across", "return col < p.across"),
    ("implicit_dgrad", "* p.c + row) * taps(p) + t % taps(p)", "* p.c + row) * taps(p)"),
    ("implicit_dgrad", "pixel / p.w + p.top", "pixel / p.w"),
    ("implicit_wgrad", "col % taps(p), &at", "0, &at"),
    ("implicit_wgrad", "return (index_t)(group * p.k + row) * cols() + col", "return row * cols() + col"),
    ("implicit_wgrad", "sum[r][q] += left", "sum[r][q] = left"),
    ("columns_of", "(int)across * (int)stride - (int)top", "(int)across - (int)top"),
    ("columns_of", "inside ? x[(plane * h + row) * w + col] : 0", "x[(plane * h + row) * w + col]"),
    ("columns_of", "tap % (int)s * (int)dilation", "tap / (int)s * (int)dilation"),
    ("columns_back", "row % stride ||", ""),
    ("columns_back", "|| row / stride >= down", ""),
    ("columns_back", "sum +=", "sum ="),
    ("columns_back", "(plane * r + a)", "(plane * r)"),
    ("frames_of", "row % step == 0 &&", ""),
    ("frames_of", "&& row / step < rows", ""),
    ("frames_of", "inside ? planes[(plane * rows", "inside ? planes[(plane"),
    ("frames_back", "scale *", ""),
    ("frames_back", "* step + first", "* step - first"),
    ("frames_back", "* step + left", "+ left"),
    ("winograd2_image", "row * m + i - top", "row * m + i"),
    ("winograd4_image", "-169. / 128, 0, 1. / 2, 0}", "-168. / 128, 0, 1. / 2, 0}"),
    ("winograd4_image", "y >= 0 && y < h", "y < h"),
    ("winograd2_image", "plane % channels * images * tiles", "plane / channels * images * tiles"),
    ("winograd2_gradient", "d[i][j] = y < h &&", "d[i][j] ="),
    ("winograd4_gradient", "both<A<m>, false>(d, t)", "t[0][0] = d[0][0]"),
    ("winograd4_result", "if (to < h && along < w)", ""),
    ("winograd2_result", "add(to[i][j], element<X, turned>(j, l), half[i][l])", "to[i][j] = half[i][l]"),
    ("winograd4_result", "{1, 5. / 8, 25. / 64", "{1, 5. / 8, 24. / 64"),
    ("winograd2_filter", "turned ? TAPS * TAPS - 1 - tap : tap", "tap"),
    ("winograd4_filter", "turned ? own % c * k + own / c : own", "own"),
    ("winograd4_filter", "512. / 225", "511. / 225"),
    ("winograd2_filter", "if (own >= k * c) return;\n    float g", "float g"),
    ("winograd2_dfilter", "k * c + own];", "k * c];"),
    ("winograd4_dfilter", "{0, 0, 2}", "{0, 0, 1}"),
]


@pytest.mark.parametrize(("name", "text", "instead"), some(BROKEN, [f"{x[0]}: {x[1]}" for x in BROKEN]))
def test_a_broken_kernel_is_refused(name: str, text: str, instead: str) -> None:
    kernel = cases.find(name)
    source = kernel.source.read_text()
    assert text in source
    broken = source.replace(text, instead)

    def allowed(problem: Any) -> bool:
        try:
            return cases.run(kernel, problem, broken).allowed
        except launcher.LaunchFailed:
            return False

    assert not all(map(allowed, kernel.problems))


def test_every_kernel_is_broken_here() -> None:
    names = {*implicit.KERNELS, *columns.KERNELS, *frames.KERNELS, *winograd_cuda.KERNELS}
    assert {name for name, _, _ in BROKEN} == names


def test_a_kernel_of_something_else_is_refused() -> None:
    problem = Conv(1, 16, 4, 4, 16)
    with pytest.raises(UsageError, match=r"implicit_wgrad of implicit\.cu is not for conv/n:1"):
        implicit.launches(problem, "implicit_wgrad")
    first = Conv(16, 3, 224, 224, 96, 11, 11, 4, 2)
    assert implicit.refused(first) is None
    assert "of the 64 rows of a tile 3 would be of use" in str(implicit.refused(replace(first, direction="dgrad")))
    assert "12 blocks would each sum 48400 terms" in str(implicit.refused(replace(first, direction="wgrad")))
    with pytest.raises(UsageError, match="--layout nchw"):
        implicit.launches(Conv(1, 16, 4, 4, 16, layout="nhwc"), "implicit_forward")
    for geometry in (
        lambda: columns.geometry(problem, "columns", 1),
        lambda: frames.geometry(problem, "frames", "x", ("planes", "frames")),
        lambda: winograd_cuda.geometry(problem, "winograd3_image", ("x", "v")),
    ):
        with pytest.raises(UsageError, match=r"no kernel \w+ in \w+\.cu; there are"):
            geometry()
