"""Placement of operands: drawn each round, from one distribution for all cases, without overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernels.errors import LaunchError

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array


def lines(nbytes: int, unit: int) -> int:
    """Return the number of units that hold `nbytes`."""
    return -(-nbytes // unit)


def draw(rng: np.random.Generator, sizes: Sequence[int], space: int, rounds: int, unit: int) -> Array:
    """Draw byte offsets [rounds, blocks], multiples of `unit`, of blocks of `sizes` bytes in `space`.

    In each round the blocks lie in random order with random gaps of entire units between them, so all blocks of
    one size have the same distribution, and no two blocks overlap."""
    import numpy as np

    units = np.array([lines(size, unit) for size in sizes], np.int64)
    slack = lines(space, unit) - int(units.sum())
    if slack < 0:
        raise ValueError(f"{sum(sizes)} bytes do not fit in {space}")
    order = rng.permuted(np.tile(np.arange(len(sizes)), (rounds, 1)), axis=1)
    gaps = np.sort(rng.integers(0, slack, (rounds, len(sizes)), endpoint=True), axis=1)
    ordered = units[order]
    starts = gaps + np.cumsum(ordered, axis=1) - ordered
    offsets: Array = np.empty_like(starts)
    np.put_along_axis(offsets, order, starts * unit, axis=1)
    return offsets


def orders(seed: int, first: int, rounds: int, count: int) -> Array:
    """Draw the order of cases in rounds `first` on: random permutations, [rounds, count].

    Every odd round reverses its predecessor, so that a steady drift affects both sides of a ratio alike."""
    import numpy as np

    by_round = np.empty((rounds, count), np.int64)
    for pair in range(first // 2, (first + rounds + 1) // 2):
        order = np.random.default_rng((seed, pair, 1)).permutation(count)
        for number, way in ((2 * pair, order), (2 * pair + 1, order[::-1])):
            if first <= number < first + rounds:
                by_round[number - first] = way
    return by_round


def fixed(sizes: Sequence[int], rounds: int, unit: int) -> Array:
    """Return byte offsets [rounds, blocks] of one placement for all rounds, block behind block."""
    import numpy as np

    units = np.array([lines(size, unit) for size in sizes], np.int64)
    offsets: Array = np.tile((np.cumsum(units) - units) * unit, (rounds, 1))
    return offsets


def refuse_shared(addresses: Array, sizes: Sequence[int], owners: Sequence[str]) -> None:
    """Raise LaunchError where blocks of two cases overlap in any round."""
    import numpy as np

    order = np.argsort(addresses, axis=1)
    start = np.take_along_axis(addresses, order, axis=1)
    end = start + np.array(sizes)[order]
    reach = np.maximum.accumulate(end, axis=1)  # a long block may hold several others
    rounds, place = np.nonzero(start[:, 1:] < reach[:, :-1])
    for r, p in zip(rounds, place, strict=True):
        inside = np.flatnonzero(end[r, : p + 1] > start[r, p + 1])
        for holder in inside:
            first, second = owners[order[r, holder]], owners[order[r, p + 1]]
            if first != second:
                raise LaunchError(f"{first} and {second} share memory in a round, which mixes their caches and results")
