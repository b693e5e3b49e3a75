"""An explanation in sentences: the gap, then its largest causes, each with its interval, its reason and what repeats
it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from macro.explaining.gap import LEAST, Gap, swapped
from macro.timing.turns import Plan
from macro.watching.watch import Side
from reports.explanation import Cell
from reports.units import seconds, signed

CAUSES = {
    "packing": "packing inside the library",
    "OS memory": "memory policy",
    "malloc": "memory policy",
    "copy": "a copy",
    "clear": "a clear",
    "framework": "dispatch",
    "interpreter": "dispatch",
    "idle": "threads",
    "barrier and spin": "threads",
    "OS other": "the operating system",
}


def sentences(gap: Gap, named: Sequence[Cell], names: Sequence[str], plan: Plan, sides: Sequence[Side]) -> list[str]:
    """The gap; its largest causes, each with its interval, its reason and what repeats it."""
    a, b = gap.step["a"], gap.step["b"]
    low, high = gap.interval
    within = " within these processes" if plan.generations == 1 else ""
    said = [
        f"A {plan.phase} of {plan.network.name}, batch {plan.batch}, takes {seconds(a)} in {names[0]} and "
        f"{seconds(b)} in {names[1]}: a gap of {signed(a - b)} [{signed(low)}, {signed(high)}]{within}."
    ]
    if _only_heap(sides):
        own, rest = swapped(gap, "OS memory")
        products = sum(cell.gap for cell in gap.cells if cell.column in ("gemm", "packing"))
        said.append(
            f"This is the swap itself, to heap {sides[1].entry.setting.heap}: of it OS memory is {signed(own)}, and "
            f"what else changed with it {signed(rest)}, the products {signed(products)} of that: the interaction."
        )
    for number, cell in enumerate(named, 1):
        said.append(
            f"{number}. {signed(cell.gap)} [{signed(cell.low)}, {signed(cell.high)}]: {cell.column}, {cell.row}: "
            f"{_cause(cell, names)}. Repeat: {cell.repeat}"
        )
    if not named:
        said.append(f"No cell differs for certain by {LEAST:.0%} of the step or more{within}.")
    return said


def _only_heap(sides: Sequence[Side]) -> bool:
    a, b = (side.entry for side in sides)
    return a.framework.name == b.framework.name and a.setting == replace(b.setting, heap=a.setting.heap) != b.setting


def _cause(cell: Cell, names: Sequence[str]) -> str:
    more, less = (0, 1) if cell.gap > 0 else (1, 0)
    side = "ab"
    if not cell.amount[side[less]]:
        return f"{CAUSES.get(cell.column, 'an extra operation')}, which {names[less]} has not"
    kernels = f"{names[0]} in {cell.seen['a']}, {names[1]} in {cell.seen['b']}"
    mostly = "more work" if abs(cell.work or 0) > abs(cell.rate or 0) else "a lower rate"
    if cell.column == "gemm":
        if mostly == "more work":
            return f"an extra operation: {names[more]} has {mostly}"
        if _library(cell.seen["a"]) != _library(cell.seen["b"]):
            return f"another library ({kernels})"
        a, b = cell.how["a"], cell.how["b"]
        return f"transposition, {a} against {b}" if a != b else f"the kernel's rate ({kernels})"
    base = CAUSES.get(cell.column)
    if base is None:
        base = "extra passes" if mostly == "more work" else "the kernel's rate"
        return f"{base} ({kernels})"
    return f"{base}: {names[more]} has {mostly}"


def _library(seen: str | None) -> str:
    """The module of a kernel as `seen` tells it: `symbol (module)`."""
    return (seen or "").rpartition("(")[2]
