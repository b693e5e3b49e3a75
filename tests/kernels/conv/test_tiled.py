"""Convolution by transforms of small tiles: right in three passes on odd problems, a small workspace, wrong twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.errors import WrongResult
from kernels.ops.conv import tiled
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.ops.conv.tiled import Tiling
from kernels.setting import Setting
from tests.kernels.rows import CPU, checked

SIDES = {"pad_top": 0, "pad_left": 1, "pad_bottom": 2, "pad_right": 3}
SCIPY, KEPT = find("conv", "fft-tiled-16-scipy"), find("conv", "fft-tiled-16-scipy-kept")


def sides(direction: str) -> Conv:
    return Conv(2, 4, 21, 40, 6, direction=direction, **SIDES)


@pytest.mark.parametrize(
    ("fields", "option"),
    [
        ({"stride": 2}, "--stride 1"),
        ({"groups": 2}, "--groups 1"),
        ({"layout": "nhwc"}, "--layout nchw"),
        ({"h": 40, "r": 33}, "--r 16"),
        ({"h": 40, "w": 90, "s": 12, "dilation": 5}, "--s 4"),
        ({"c": 2048, "k": 4096}, "a smaller --c or --k"),
    ],
)
def test_what_is_refused_names_the_remedy(fields: dict[str, Any], option: str) -> None:
    asked = Conv(**{"n": 2, "c": 4, "h": 9, "w": 7, "k": 6, **fields})
    assert option in (SCIPY.accepts(asked) or "") and KEPT.accepts(asked)
    assert SCIPY.executed(asked).flops > 0  # of a case that is skipped too


@pytest.mark.parametrize("direction", PASSES)
def test_tiles_cover_what_is_made(direction: str) -> None:
    asked = Conv(3, 4, 27, 40, 6, 5, 3, pad_top=2, direction=direction)
    tiling = Tiling(asked, 16)
    assert tiling.steps == (12, 14)
    made = (27, 40) if direction == "dgrad" else (25, 38)
    assert (tiling.down, tiling.across) == (-(-made[0] // 12), -(-made[1] // 14))
    assert sum(count for _, count in tiling.blocks) == tiling.tiles == 3 * tiling.down * tiling.across


@pytest.mark.parametrize("direction", PASSES)
def test_work_and_workspace_are_those_of_the_formulas(direction: str) -> None:
    asked = Conv(2, 3, 26, 26, 5, 5, 5, pad=2, direction=direction)  # 12 outputs a tile and side: 3 × 3 tiles
    f, tiles, transforms = 16 * 9, 2 * 3 * 3, 2.5 * 256 * 8
    flops = 8 * f * tiles * 3 * 5 + transforms * (tiles * (3 + 5) + 15)
    assert SCIPY.executed(asked).flops == pytest.approx(flops)
    assert SCIPY.executed(asked).bytes == asked.bytes + 8 * f * 15
    if direction != "wgrad":
        assert KEPT.executed(asked).flops == pytest.approx(flops - 15 * transforms)
    bench = [np.zeros(x.shape, "f4") for x in asked.operands()]
    launch = SCIPY.prepare(asked, CPU, Setting())(bench)
    frames = 8 * -(-max(tiles * 5, 15) // 8)
    assert launch.workspace == 8 * f * (tiles * (3 + 5) + 15) + frames * (4 * 256 + 8 * f)


def test_the_workspace_does_not_grow_with_the_batch() -> None:
    few, many = (Conv(n, 64, 56, 56, 64, 5, 5, pad=2) for n in (4, 64))
    assert tiled.spectra_bytes(Tiling(many, 16)) <= 1.25 * tiled.spectra_bytes(Tiling(few, 16))


# Wrong twins


@pytest.mark.parametrize("direction", PASSES)
def test_tiles_that_overlap_too_little_are_refused(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = sides(direction)
    monkeypatch.setattr(Tiling, "steps", property(lambda tiling: (tiling.size, tiling.size)))
    with pytest.raises(WrongResult):
        checked(asked, SCIPY)


@pytest.mark.parametrize("direction", PASSES)
def test_an_image_that_begins_one_off_is_refused(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Tiling.before.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Tiling, "before", property(lambda tiling: tuple(zeros + 1 for zeros in before(tiling))))
    with pytest.raises(WrongResult):
        checked(sides(direction), SCIPY)


def test_a_gradient_of_the_last_block_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "NEAR", 0)
    monkeypatch.setattr(tiled, "LEAST", 5)
    products = tiled.fft.products

    class Forgetful(tiled.fft.Products):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, 0 if name == "added" else value)

    def forgetful(made: Any) -> Any:
        return Forgetful.from_buffer_copy(products(made))

    monkeypatch.setattr(tiled.fft, "products", forgetful)
    with pytest.raises(WrongResult):
        checked(sides("wgrad"), SCIPY)
