"""Passes of tiled algorithms: the gradient of images is the forward pass of the flipped filter."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.ops.conv.problem import Conv


@dataclass(frozen=True)
class Reading:
    """A pass as a forward convolution of images of `read` channels to results of `written` channels.

    `sizes` are the images' and the results' (height, width); `before` are zeros above and left of an image, negative
    if it is cropped. In wgrad dy takes the place of the results."""

    problem: Conv

    @property
    def reverse(self) -> bool:
        return self.problem.direction == "dgrad"

    @property
    def read(self) -> int:
        return self.problem.k if self.reverse else self.problem.c

    @property
    def written(self) -> int:
        return self.problem.c if self.reverse else self.problem.k

    @property
    def spans(self) -> tuple[int, int]:
        """Rows and columns that a filter spans, dilation included."""
        down, across = self.problem.lines
        return (down.taps - 1) * down.dilation + 1, (across.taps - 1) * across.dilation + 1

    @property
    def sizes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(height, width) of the images and of the results."""
        down, across = self.problem.lines
        sizes = (self.problem.h, self.problem.w), (down.outputs, across.outputs)
        return sizes[::-1] if self.reverse else sizes

    @property
    def before(self) -> tuple[int, int]:
        """Zeros above and left of an image; in dgrad, those that the flipped filter needs."""
        pads, spans = (self.problem.pad_top, self.problem.pad_left), self.spans
        return (spans[0] - 1 - pads[0], spans[1] - 1 - pads[1]) if self.reverse else pads
