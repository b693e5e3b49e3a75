"""Blocks of a script's steps as they are and with trials of advice, in turns."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from statistics import fmean

from macro.watching.regular import regular

SHARE, FEWEST = 0.2, 6  # of the budget; turns, at least


def in_turns(
    block: Callable[[str], Sequence[float]],
    names: Sequence[str],
    seconds: float,
    kept: dict[str, list[float]],
    fewest: int = FEWEST,
    seed: int = 0,
) -> None:
    """Add seconds of a step to `kept`, by trial and block, "" as the script is; `block(name)`: seconds of its steps.

    `fewest` turns at least; `seed`: of their order."""
    for name in names:
        block(name)  # the first block of a trial allocates
    order, end = random.Random(seed), time.monotonic() + seconds
    kept.update((name, []) for name in ("", *names))
    while time.monotonic() < end or len(kept[""]) < fewest:
        for name in order.sample(list(kept), len(kept)):
            each = block(name)  # of collections, long steps are what a trial saves
            kept[name].append(fmean(each if "gc" in names else regular(each)))
