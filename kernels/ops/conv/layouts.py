"""Layouts of images and filters: nchw, nhwc with channels last, nchw16c in blocks of 16 channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from kernels.lazy import np
from kernels.places import Places
from kernels.problem import Array

if TYPE_CHECKING:
    from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[np.int64]"
BLOCK = 16  # channels side by side in layout nchw16c
LAYOUTS = ("nchw", "nhwc", "nchw16c")


def images(layout: str, n: int, channels: int, height: int, width: int) -> tuple[int, ...]:
    """Return the shape of an image operand in the layout."""
    if layout == "nhwc":
        return n, height, width, channels
    if layout == "nchw16c":
        return n, channels // BLOCK, height, width, BLOCK
    return n, channels, height, width


def filters(layout: str, k: int, c: int, r: int, s: int) -> tuple[int, ...]:
    """Return the shape of a filter operand in the layout."""
    if layout == "nhwc":
        return k, r, s, c
    if layout == "nchw16c":
        return k // BLOCK, c // BLOCK, r, s, BLOCK, BLOCK
    return k, c, r, s


def plain(layout: str, array: Array) -> Array:
    """Return an operand with plain axes (image or filter, channel, row, column), a view if possible."""
    if layout == "nhwc":
        return array.transpose(0, 3, 1, 2)
    if layout == "nchw":
        return array
    first, second, height, width = array.shape[:4]
    if array.ndim == 6:
        return array.transpose(0, 5, 1, 4, 2, 3).reshape(first * BLOCK, second * BLOCK, height, width)
    return array.transpose(0, 1, 4, 2, 3).reshape(first, second * BLOCK, height, width)


def laid(layout: str, array: Array, *, of_filters: bool) -> Array:
    """Return an operand, given with plain axes, in the layout; the inverse of `plain`."""
    if layout == "nhwc":
        return array.transpose(0, 2, 3, 1)
    if layout == "nchw":
        return array
    first, second, height, width = array.shape
    if of_filters:
        blocks = array.reshape(first // BLOCK, BLOCK, second // BLOCK, BLOCK, height, width)
        return blocks.transpose(0, 2, 4, 5, 3, 1)
    return array.reshape(first, second // BLOCK, BLOCK, height, width).transpose(0, 1, 3, 4, 2)


def image_places(layout: str, n: Numbers, channels: Numbers, rows: Sequence[int], columns: Sequence[int]) -> Places:
    """Return the indices along each axis of an image operand; in nchw16c `channels` are full blocks."""
    down, across = np.asarray(rows), np.asarray(columns)
    if layout == "nhwc":
        return n, down, across, channels
    if layout == "nchw16c":
        return n, channels[::BLOCK] // BLOCK, down, across, np.arange(BLOCK)
    return n, channels, down, across


def filter_places(layout: str, k: Numbers, c: Numbers, r: Sequence[int], s: Sequence[int]) -> Places:
    """Return the indices along each axis of a filter operand; in nchw16c `k` and `c` are full blocks."""
    down, across = np.asarray(r), np.asarray(s)
    if layout == "nhwc":
        return k, down, across, c
    if layout == "nchw16c":
        block = np.arange(BLOCK)
        return k[::BLOCK] // BLOCK, c[::BLOCK] // BLOCK, down, across, block, block
    return k, c, down, across
