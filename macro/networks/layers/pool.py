"""Pooling of images: the maximum or the average of each window.

Windows that reach over the edge exist where sizes round up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from macro.networks.layer import Layer, Shape, four, image

MODES = ("max", "average")
ROUNDINGS = ("floor", "ceil")


@dataclass(frozen=True, kw_only=True)
class Pool(Layer):
    """A pooling by square windows; padding belongs to no maximum and counts in no average."""

    kind: ClassVar[str] = "pool"

    mode: str = "max"
    window: int = 2  # rows and columns; 0: the whole image
    stride: int = 2
    pads: tuple[int, ...] = ()  # above, left, below, right
    rounding: str = "floor"

    def output(self, inputs: Sequence[Shape]) -> Shape:
        c, h, w = image(inputs, "pooling")
        if self.mode not in MODES or self.rounding not in ROUNDINGS:
            raise ValueError(f"pooling has a mode of {', '.join(MODES)} and a rounding of {', '.join(ROUNDINGS)}")
        if self.window < 0 or self.stride < 1:
            raise ValueError(f"window {self.window}, stride {self.stride}: 0 or more, and 1 or more")
        if self.window == 0:
            if self.pads:
                raise ValueError("window 0 is the whole image: it has no pads")
            return (c, 1, 1)
        top, left, bottom, right = four(self.pads)
        if max(top, left, bottom, right) >= self.window:
            raise ValueError(f"pads {self.pads} of a window of {self.window}: smaller ones")
        rows, columns = self._places(h, top, bottom), self._places(w, left, right)
        if min(rows, columns) < 1:
            raise ValueError(f"a window of {self.window} is larger than its image, {h} × {w}")
        return (c, rows, columns)

    def _places(self, length: int, before: int, behind: int) -> int:
        """Return the number of windows along an axis, without those that begin beyond the image."""
        left = length + before + behind - self.window
        places = (left // self.stride if self.rounding == "floor" else -(-left // self.stride)) + 1
        return places - ((places - 1) * self.stride >= length + before)


LAYER = Pool
