"""Regular and long steps of a script's blocks, and what a recording keeps of its long steps and its lines."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

LONG, MORE = 3.0, 0.005  # times the median, and seconds more: longer steps are long


def limit(each: Sequence[float]) -> float:
    """Return the seconds beyond which a step is long, by the steps of its block."""
    middle = median(each)
    return max(LONG * middle, middle + MORE)


def regular(each: Sequence[float]) -> list[float]:
    """Return the seconds of a block's steps that are not long."""
    least = limit(each)
    return [x for x in each if x <= least]


def count(program: dict[str, Any], each: Sequence[float], collections: Sequence[int] | None) -> None:
    """Add a block to a recording's numbers and seconds of steps and of long steps.

    `collections` of garbage in the block: their number and nanoseconds; None: not of a plain block."""
    short = regular(each)
    added = {"steps": len(each), "long": len(each) - len(short), "seconds": sum(each)}
    kept = program.setdefault("counted", {})
    if collections is not None:
        added |= {"collections": collections[0], "collecting": collections[1] * 1e-9, "plain seconds": sum(each)}
    for name, value in {**added, "long seconds": sum(each) - sum(short)}.items():
        kept[name] = kept.get(name, 0) + value


def add_lines(program: dict[str, Any], name: str, steps: int, lines: Sequence[Sequence[Any]]) -> None:
    """Add the sampled lines of so many steps to a recording, as `lines`, or as `long lines` with their long steps."""
    kept = program.setdefault(name, {"steps": 0, "lines": {}})
    kept["steps"] += steps
    for file, line, function, text, seconds, long in lines:
        row = kept["lines"].setdefault(f"{file}:{line}", [function, text, 0.0, 0])
        row[2] += seconds
        row[3] += long
