"""Lengths of the 1,989 sequences of Bahrampour's LSTM benchmark, counted, and batches of them."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path

from kernels.lazy import np

COUNTS = Path(__file__).with_name("lengths.json")  # [length, sequences of it] pairs, shortest first


@functools.cache
def every() -> tuple[int, ...]:
    """Return the lengths in tokens, shortest first."""
    counts: list[list[int]] = json.loads(COUNTS.read_text("utf-8"))["counts"]
    return tuple(length for length, count in counts for _ in range(count))


@functools.cache
def batches(batch: int, order: str) -> tuple[tuple[int, ...], ...]:
    """Return all full batches, of the lengths in order or shuffled (`sorted`, `shuffled`), longest first in each."""
    lengths = np.array(every())
    if order == "shuffled":
        np.random.default_rng(0).shuffle(lengths)
    full = len(lengths) // batch
    parts = lengths[: full * batch].reshape(full, batch)
    return tuple(tuple(sorted(map(int, part), reverse=True)) for part in parts)


@functools.cache
def middle(batch: int, order: str) -> tuple[int, ...]:
    """Return the batch whose longest sequence is the median of all batches'."""
    ordered = sorted(batches(batch, order), key=lambda x: (x[0], x))
    return ordered[len(ordered) // 2]


def padding(parts: Sequence[Sequence[int]], to: int = 0) -> float:
    """Return the share of steps that are padding, if each batch is padded to its longest sequence or to `to` steps."""
    steps = sum(len(part) * (to or max(part)) for part in parts)
    return 1 - sum(map(sum, parts)) / steps
