"""Random indices of elements that a verified sample checks, few enough for a float64 answer in 1 ms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from kernels.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Places: TypeAlias = "tuple[NDArray[np.int64], ...]"

ELEMENTS = 1 << 12  # size of the largest operand that is checked in full
BLOCK = 64  # adjacent elements per block, if only a part is checked
TERMS = 1 << 19  # multiply-adds of a product in float64: a tenth of a millisecond
FEW = 64  # most blocks of rows, because each is copied from a GPU separately
READ = 1 << 19  # elements of a product's inputs


def every(shape: Sequence[int]) -> Places:
    """Return all indices of an operand of this shape, axis by axis."""
    return tuple(np.arange(extent) for extent in shape)


def blocks(rng: np.random.Generator, extent: int, most: int, block: int = 1) -> NDArray[np.int64]:
    """Return at most `most` indices of an axis: all, or random blocks, the last as likely as any other."""
    if extent <= most:
        return np.arange(extent)
    count = -(-extent // block)
    drawn = np.sort(rng.choice(count, max(1, most // block), replace=False))
    places = (drawn[:, None] * block + np.arange(block)).ravel()
    return places[places < extent]


def elements(rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    """Return indices to check of an elementwise operation's operand of `count` elements."""
    return blocks(rng, count, ELEMENTS if count <= ELEMENTS else ELEMENTS // 2, BLOCK)


def rows(rng: np.random.Generator, count: int, width: int) -> NDArray[np.int64]:
    """Return rows to check of an operation on independent rows of `width` elements, at least one row."""
    return blocks(rng, count, max(1, 2 * ELEMENTS // max(1, width)))


def tile(rng: np.random.Generator, m: int, n: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns to check of an m×n product of k terms, in a tenth of a ms in float64."""
    most = max(1, min(TERMS // k, 4 * ELEMENTS))  # elements of the result
    down = min(m, max(min(int(most**0.5), max(1, READ // (2 * k))), most // n))
    across = min(n, max(1, min(most // down, READ // (2 * k))))
    return blocks(rng, m, down, max(1, down // FEW)), blocks(rng, n, across, max(1, across // 2))
