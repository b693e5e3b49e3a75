"""Pooling of images: the maximum or the average of each window; windows that go over the edge are there where sizes
round up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from macro.networks.layer import Layer, Shape, image

MODES = ("max", "average")
ROUNDINGS = ("floor", "ceil")


@dataclass(frozen=True, kw_only=True)
class Pool(Layer):
    """`window`: rows and columns of one, 0 for the whole image; `pads`: rows and columns outside, above, left, below,
    right, which belong to no maximum and count in no average."""

    kind: ClassVar[str] = "pool"

    mode: str = "max"
    window: int = 2
    stride: int = 2
    pads: tuple[int, ...] = ()
    rounding: str = "floor"

    def output(self, inputs: Sequence[Shape]) -> Shape:
        c, h, w = image(inputs, "pooling")
        if self.mode not in MODES or self.rounding not in ROUNDINGS:
            raise ValueError(f"pooling has a mode of {', '.join(MODES)} and a rounding of {', '.join(ROUNDINGS)}")
        if self.window == 0:
            return (c, 1, 1)
        top, left, bottom, right = self.pads or (0, 0, 0, 0)
        rows, columns = (self._places(n) for n in (h + top + bottom, w + left + right))
        if min(rows, columns) < 1:
            raise ValueError(f"a window of {self.window} is larger than its image, {h} × {w}")
        return (c, rows, columns)

    def _places(self, length: int) -> int:
        left = length - self.window
        return (left // self.stride if self.rounding == "floor" else -(-left // self.stride)) + 1


LAYER = Pool
