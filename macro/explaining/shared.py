"""Division of an operation's time among its rows by the bytes that each touches; not of products.

A fused product keeps its rows together: the share of the activation behind it is unknown. An operation that only passes
over data, such as batch normalization, addition and ReLU of several layers in one compiled kernel, takes as long as it
reads and writes; undivided, it would make one row of a whole network of residual blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from macro.explaining.attribute import Attribution, Key
from macro.explaining.rows import Row, passes

Rows = tuple[str, ...]


def shares(rows: Rows, group: Mapping[str, Rows], by_name: Mapping[str, Row]) -> Iterator[tuple[Rows, float]]:
    """Yield the groups of these rows, each with its share of an operation for all."""
    groups = list(dict.fromkeys(group.get(name, (name,)) for name in rows))
    if len(groups) == 1 or not passes(rows, by_name):
        yield groups[0], 1.0
        return
    touched = {name: by_name[name].bytes for name in rows}
    total = sum(touched.values())
    for members in groups:
        yield members, sum(touched[name] for name in members if name in touched) / total


def split(sums: Mapping[Rows, float], group: Mapping[str, Rows], by_name: Mapping[str, Row]) -> dict[Rows, float]:
    """Convert numbers by rows into numbers by group."""
    totals: dict[Rows, float] = {}
    for rows, value in sums.items():
        for members, part in shares(rows, group, by_name):
            totals[members] = totals.get(members, 0.0) + part * value
    return totals


def shared(of: Attribution, group: Mapping[str, Rows], by_name: Mapping[str, Row]) -> Attribution:
    """Return an attribution whose cells are of single groups alone."""
    cells: dict[Key, list[float]] = {}
    seen: dict[Key, Counter[str]] = {}
    for (rows, column), seconds in of.cells.items():
        for members, part in shares(rows, group, by_name):
            held = cells.get((members, column), [0.0] * of.steps)
            cells[members, column] = [x + part * more for x, more in zip(held, seconds, strict=True)]
            seen.setdefault((members, column), Counter()).update(of.seen.get((rows, column), Counter()))

    def spread(numbers: Mapping[Key, float]) -> dict[Key, float]:
        totals: dict[Key, float] = {}
        for column in dict.fromkeys(column for _, column in numbers):
            by_rows = {rows: value for (rows, other), value in numbers.items() if other == column}
            totals |= {(rows, column): value for rows, value in split(by_rows, group, by_name).items()}
        return totals

    faults = split(of.faults, group, by_name)
    calls, touched, flops = map(spread, (of.calls, of.bytes, of.flops))
    return replace(of, cells=cells, seen=seen, faults=faults, calls=calls, bytes=touched, flops=flops)
