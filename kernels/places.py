"""Places of operands that a verified sample checks, few enough for a float64 answer within 1 ms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from kernels.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Places: TypeAlias = "tuple[NDArray[np.int64], ...]"

ELEMENTS = 1 << 12  # of an operand that is looked at whole
BLOCK = 64  # elements that lie together where a part is taken
TERMS = 1 << 19  # multiply-adds of a product in float64: a tenth of a millisecond
FEW = 64  # blocks of rows: each is a copy of its own from a GPU
READ = 1 << 19  # elements of its inputs


def every(shape: Sequence[int]) -> Places:
    """Return all places of an operand."""
    return tuple(np.arange(extent) for extent in shape)


def blocks(rng: np.random.Generator, extent: int, most: int, block: int = 1) -> NDArray[np.int64]:
    """Return at most `most` places of an axis: all, or random blocks, the end as likely as the rest."""
    if extent <= most:
        return np.arange(extent)
    count = -(-extent // block)
    drawn = np.sort(rng.choice(count, max(1, most // block), replace=False))
    places = (drawn[:, None] * block + np.arange(block)).ravel()
    return places[places < extent]


def elements(rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    """Return places of an elementwise operation's operand."""
    return blocks(rng, count, ELEMENTS if count <= ELEMENTS else ELEMENTS // 2, BLOCK)


def rows(rng: np.random.Generator, count: int, width: int) -> NDArray[np.int64]:
    """Return rows of an operation that treats each row of `width` elements by itself, at least one row."""
    return blocks(rng, count, max(1, 2 * ELEMENTS // max(1, width)))


def tile(rng: np.random.Generator, m: int, n: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of a product of k terms that take a tenth of a millisecond in float64."""
    most = max(1, min(TERMS // k, 4 * ELEMENTS))  # elements of the result
    down = min(m, max(min(int(most**0.5), max(1, READ // (2 * k))), most // n))
    across = min(n, max(1, min(most // down, READ // (2 * k))))
    return blocks(rng, m, down, max(1, down // FEW)), blocks(rng, n, across, max(1, across // 2))
