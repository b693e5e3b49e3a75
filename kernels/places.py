"""Places of operands that a witness looks at: so few that their answer in float64 takes less than a millisecond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Places: TypeAlias = tuple[NDArray[np.int64], ...]

ELEMENTS = 1 << 12  # of an operand that is looked at whole
BLOCK = 64  # elements that lie together where a part is taken
TERMS = 1 << 19  # multiply-adds of a product in float64: a tenth of a millisecond
FEW = 64  # blocks of rows: each is a copy of its own from a GPU
READ = 1 << 19  # elements of its inputs


def every(shape: Sequence[int]) -> Places:
    """All places of an operand."""
    import numpy as np

    return tuple(np.arange(extent) for extent in shape)


def blocks(rng: np.random.Generator, extent: int, most: int, block: int = 1) -> NDArray[np.int64]:
    """At most so many places of an axis: all of them, or blocks that lie anywhere, its end no rarer than others."""
    import numpy as np

    if extent <= most:
        return np.arange(extent)
    count = -(-extent // block)
    drawn = np.sort(rng.choice(count, max(1, most // block), replace=False))
    places = (drawn[:, None] * block + np.arange(block)).ravel()
    return places[places < extent]


def elements(rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    """Of an operation that treats each element by itself."""
    return blocks(rng, count, ELEMENTS if count <= ELEMENTS else ELEMENTS // 2, BLOCK)


def rows(rng: np.random.Generator, count: int, width: int) -> NDArray[np.int64]:
    """Of an operation that treats each row of so many elements by itself; one at least."""
    return blocks(rng, count, max(1, 2 * ELEMENTS // max(1, width)))


def tile(rng: np.random.Generator, m: int, n: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of a product of k terms, as many as a tenth of a millisecond of float64 sums."""
    most = max(1, min(TERMS // k, 4 * ELEMENTS))  # elements of the result
    down = min(m, max(min(int(most**0.5), max(1, READ // (2 * k))), most // n))
    across = min(n, max(1, min(most // down, READ // (2 * k))))
    return blocks(rng, m, down, max(1, down // FEW)), blocks(rng, n, across, max(1, across // 2))
