"""What was watched, told: the document of an explanation. What a person reads of it: reports/attribution.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from macro.explaining import gap, witnesses
from macro.explaining.attribute import Attribution, attribute
from macro.explaining.gap import Cell, Gap
from macro.explaining.repeat import headroom, repeat, transposition
from macro.explaining.rows import Row, groups, rows
from macro.timing.turns import Plan
from macro.watching import perf
from macro.watching.watch import Side
from reports.units import seconds, signed

SENTENCES = 5
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


def tell(plan: Plan, sides: Sequence[Side], took: float, kernels: bool = False) -> dict[str, Any]:
    """The document: steps, cells, residuals, closures, agreement, sentences; with `kernels` the named products
    measured by themselves."""
    known = rows(plan.network, plan.batch)
    conditions = _conditions(plan, sides)
    sides = _comparable(sides)
    joined = groups(span["rows"] for side in sides for process in side.processes for span in process.spans)
    threads = sides[0].entry.setting.threads
    told = [[attribute(process, joined, threads) for process in side.processes] for side in sides]
    found = gap.gap(sides, told, known)
    named = gap.named(found)[:SENTENCES]
    agreed = [
        x
        for name, side, of in zip("ab", sides, told, strict=True)
        for x in witnesses.agreement(name, side, of, joined, known)
    ]
    names, both = [_name(side, sides) for side in sides], list(zip("ab", sides, strict=True))
    left = headroom(named, plan, sides, known) if kernels else []
    nothing = ["--kernels: nothing that is named could be measured by itself"] if kernels and not left else []
    cells = [(cell, _cell(cell, plan, sides, known)) for cell in found.cells]
    return {
        "network": plan.network.name,
        "batch": plan.batch,
        "phase": plan.phase,
        "threads": threads,
        "clock": "processor and waiting" if threads == 1 else "wall",
        "runs": plan.generations,
        "seconds": took,
        "a": names[0],
        "b": names[1],
        "step": found.step,
        "gap": found.step["a"] - found.step["b"],
        "interval": found.interval,
        "resolution": found.resolution,
        "cells": [told for _, told in cells],
        "residual": found.residual,
        "closure": {name: _closure(side, of) for name, side, of in zip("ab", sides, told, strict=True)},
        "levels": {name: gap.levels(side.processes) for name, side in both},
        "agreement": [asdict(x) for x in agreed],
        "waterfall": {what: gap.by(found, known, what) for what in ("cause", "layer", "phase")},
        "faults": {name: gap.mean([x for p in side.processes for x in p.faults]) for name, side in both},
        "system": {name: gap.mean([x for p in side.processes for x in p.system]) for name, side in both},
        "products": {name: [asdict(x) for x in side.products] for name, side in both},
        "identity": [side.entry.identity for side in sides],
        "conditions": conditions + nothing,
        "named": [told for cell, told in cells if cell in named],
        "headroom": left,
        "sentences": _sentences(found, named, names, plan, sides, known),
    }


def _comparable(sides: Sequence[Side]) -> Sequence[Side]:
    """Where one tells no spans, the rows of the other would stand beside none: both have categories alone."""
    if all(process.traces for side in sides for process in side.processes):
        return sides
    return [
        replace(side, processes=[replace(process, spans=[], traces=False) for process in side.processes])
        for side in sides
    ]


def _name(side: Side, sides: Sequence[Side]) -> str:
    """A framework, with the settings in which the two differ."""
    own, others = side.entry, [other.entry for other in sides if other is not side]
    more = [f"heap {own.setting.heap}"] if any(o.setting.heap != own.setting.heap for o in others) else []
    more += [own.division] if any(o.division != own.division for o in others) else []
    return " ".join([own.framework.name, *more])


def _closure(side: Side, told: Sequence[Attribution]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name in ("sampling", "span", "naming", "threads"):
        values = [x for x in (process.closure.get(name) for process in told) if x is not None]
        found[name] = gap.mean(values) if values else None
    return {**found, **witnesses.closure(side)}


def _conditions(plan: Plan, sides: Sequence[Side]) -> list[str]:
    """What these figures cannot know."""
    found = []
    if plan.generations < gap.PROCESSES:
        found.append(
            f"{plan.generations} process{'es' if plan.generations > 1 else ''} of each: intervals hold within them; "
            f"what differs from process to process is not in them (--runs {gap.PROCESSES})"
        )
    if reason := perf.missing():
        found.append(f"no samples: {reason}; the operating system's share is inside the rows")
    elif not perf.sees_kernel():
        found.append("perf sees no kernel code here: the operating system's share is in the residual")
    for side in sides:
        if not all(process.traces for process in side.processes):
            found.append(f"{side.entry.framework.name} tells no spans: categories only, no rows, of both")
    return found


def _cell(cell: Cell, plan: Plan, sides: Sequence[Side], known: Mapping[str, Row]) -> dict[str, Any]:
    told = asdict(cell)
    told["members"] = list(cell.members)
    told["how"] = {name: transposition(cell, side, known) for name, side in zip("ab", sides, strict=True)}
    told["repeat"] = repeat(cell, plan, sides, known).command
    return told


def _sentences(
    found: Gap, named: Sequence[Cell], names: Sequence[str], plan: Plan, sides: Sequence[Side], known: Mapping[str, Row]
) -> list[str]:
    """The gap; its largest causes, each with its interval, its reason and what repeats it."""
    a, b = found.step["a"], found.step["b"]
    low, high = found.interval
    said = [
        f"A {plan.phase} of {plan.network.name}, batch {plan.batch}, takes {seconds(a)} in {names[0]} and "
        f"{seconds(b)} in {names[1]}: a gap of {signed(a - b)} [{signed(low)}, {signed(high)}]."
    ]
    if _only_heap(sides):
        own, rest = gap.swapped(found, "OS memory")
        products = sum(cell.gap for cell in found.cells if cell.column in ("gemm", "packing"))
        said.append(
            f"This is the swap itself, to heap {sides[1].entry.setting.heap}: of it OS memory is {signed(own)}, and "
            f"what else changed with it {signed(rest)}, the products {signed(products)} of that: the interaction."
        )
    for number, cell in enumerate(named, 1):
        said.append(
            f"{number}. {signed(cell.gap)} [{signed(cell.low)}, {signed(cell.high)}]: {cell.column}, {cell.row}: "
            f"{_cause(cell, names, sides, known)}. Repeat: {repeat(cell, plan, sides, known).command}"
        )
    if not named:
        said.append(f"No cell differs for certain by {gap.LEAST:.0%} of the step or more.")
    return said


def _only_heap(sides: Sequence[Side]) -> bool:
    a, b = (side.entry for side in sides)
    return a.framework.name == b.framework.name and a.setting == replace(b.setting, heap=a.setting.heap) != b.setting


def _cause(cell: Cell, names: Sequence[str], sides: Sequence[Side], known: Mapping[str, Row]) -> str:
    more, less = (0, 1) if cell.gap > 0 else (1, 0)
    side = "ab"
    if not cell.amount[side[less]]:
        return f"{CAUSES.get(cell.column, 'an extra operation')}, which {names[less]} has not"
    how = [transposition(cell, x, known) for x in sides]
    kernels = f"{names[0]} in {cell.seen['a']}, {names[1]} in {cell.seen['b']}"
    mostly = "more work" if abs(cell.work or 0) > abs(cell.rate or 0) else "a lower rate"
    if cell.column == "gemm":
        if mostly == "more work":
            return f"an extra operation: {names[more]} has {mostly}"
        if _library(cell.seen["a"]) != _library(cell.seen["b"]):
            return f"another library ({kernels})"
        return f"transposition, {how[0]} against {how[1]}" if how[0] != how[1] else f"the kernel's rate ({kernels})"
    base = CAUSES.get(cell.column)
    if base is None:
        base = "extra passes" if mostly == "more work" else "the kernel's rate"
        return f"{base} ({kernels})"
    return f"{base}: {names[more]} has {mostly}"


def _library(seen: str | None) -> str:
    """The module of a kernel as `seen` tells it: `symbol (module)`."""
    return (seen or "").rpartition("(")[2]
