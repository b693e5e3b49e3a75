"""The gap between two steps as a sum over cells (rows × kind), each split exactly into work and rate.

Δ = T_A − T_B = Σ (a − b) + (ρ_A − ρ_B), ρ the residual outside all cells. For a cell with amounts F and rates r = F/t,
work is ½(F_A − F_B)(1/r_A + 1/r_B) and rate ½(F_A + F_B)(1/r_A − 1/r_B); if a side has no amount, all is work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from macro.explaining import certain, kinds
from macro.explaining.attribute import Attribution, Key
from macro.explaining.certain import LEAST, Seconds
from macro.explaining.rows import OUTSIDE, WAITING, Row, called
from macro.watching.recording import Watched
from reports.explanation import RESIDUAL, Bar, Cell

PRODUCTS = kinds.of_unit(kinds.FLOP)
PASSES = tuple(name for name in kinds.of_unit(kinds.BYTES) if name != "packing")

PROCESSES = 5  # of each side; with fewer, a condition warns of wide intervals
NOT_FAULTS = 10.0  # if OS memory per fault is so many times the other side's, faults do not explain it


@dataclass(frozen=True)
class Gap:
    """The difference of two steps, A less B, as cells and bars with a residual."""

    step: dict[str, float]  # seconds of a plain (unwatched) step by side
    interval: tuple[float, float]  # 95 %, of the difference of plain steps
    cells: tuple[Cell, ...]  # largest difference first
    bars: dict[str, tuple[Bar, ...]]  # by cause, layer and phase, the residual last
    residual: dict[str, float]  # seconds of a plain step less those of all cells, by side
    resolution: float  # half of the interval's width

    def recorded(self, names: Sequence[str], sides: Sequence[tuple[Sequence[Watched], int]]) -> dict[str, Any]:
        """Return the fields of an explanation's record that derive from the gap and both sides' processes."""
        both, threads = dict(zip("ab", sides, strict=True)), sides[0][1]
        falls = {what: [bar for bar in bars if bar.name != RESIDUAL] for what, bars in self.bars.items()}
        return {
            "threads": threads,
            "clock": "processor and waiting" if threads == 1 else "wall",
            "a": names[0],
            "b": names[1],
            "levels": {name: levels(side) for name, (side, _) in both.items()},
            "faults": {name: mean([x for process in side for x in process.faults]) for name, (side, _) in both.items()},
            **systems(both),
            "step": self.step,
            "gap": self.step["a"] - self.step["b"],
            "interval": self.interval,
            "resolution": self.resolution,
            "cells": self.cells,
            "residual": self.residual,
            "waterfall": {what: tuple((bar.name, bar.gap) for bar in bars) for what, bars in falls.items()},
            "bars": self.bars,
        }


def gap(
    sides: Sequence[Sequence[Watched]], attributions: Sequence[Sequence[Attribution]], by_name: Mapping[str, Row]
) -> Gap:
    """Compute the gap between two sides, each given as its processes and an attribution of each process."""
    import numpy as np

    keys = sorted({key for side in attributions for process in side for key in process.cells})
    rounds = [[process.by_round(keys) for process in side] for side in attributions]
    means = [np.mean([x.mean(axis=0) for x in side], axis=0).tolist() for side in rounds]
    differences = [a - b for a, b in zip(*rounds, strict=True)]
    plain = [[np.array(process.levels["P0"]) for process in side] for side in sides]
    steps = [mean([float(x.mean()) for x in side]) for side in plain]
    residual = [step - sum(side) for step, side in zip(steps, means, strict=True)]
    seconds = Seconds(keys, means, differences, LEAST * max(steps))
    bars = {what: certain.bars(seconds, by_name, what) for what in certain.ERROR}
    cells = _cells(seconds, certain.errors(seconds, bars["cause"]), sides, attributions, by_name)
    left = certain.residual(plain, rounds, residual)
    low, high = certain.ends(certain.estimate([a - b for a, b in zip(*plain, strict=True)]))
    step, rest = (dict(zip("ab", x, strict=True)) for x in (steps, residual))
    by = {what: (*waterfall, left) for what, waterfall in bars.items()}
    return Gap(step, (low, high), cells, by, rest, (high - low) / 2)


def _cells(
    seconds: Seconds,
    errors: Sequence[float],
    sides: Sequence[Sequence[Watched]],
    attributions: Sequence[Sequence[Attribution]],
    by_name: Mapping[str, Row],
) -> tuple[Cell, ...]:
    """Return the cells, the largest difference first; `errors`: the error level of each cell's test."""
    faulting, cells = _faulting(sides, seconds.keys, seconds.means), []
    for i, key in enumerate(seconds.keys):
        times = seconds.means[0][i], seconds.means[1][i]
        done = amounts(key, attributions, by_name, times, faulting)
        counts = kinds.find(key[1]).unit is not None and key[0] != (WAITING,)  # the cell's time is work at a rate
        work, rate = split(*times, *done) if counts else (None, None)
        mostly = {name: seen(key, of) for name, of in zip("ab", attributions, strict=True)}
        amount: dict[str, float | None] = dict(zip("ab", done, strict=True))
        difference = certain.estimate([x[:, i] for x in seconds.differences])
        ends, sure = certain.ends(difference), certain.differs(difference, errors[i])
        name, phase = called(key[0], by_name), certain.name(key, by_name, "phase")
        cells.append(Cell(name, key[1], *times, *ends, work, rate, amount, mostly, key[0], sure, phase=phase))
    return tuple(sorted(cells, key=lambda cell: -abs(cell.gap)))


def split(a: float, b: float, amount_a: float, amount_b: float) -> tuple[float, float]:
    """Split a cell's difference a - b into work and rate, in seconds; all is work if a side has no amount."""
    if a <= 0 or b <= 0 or amount_a <= 0 or amount_b <= 0:
        return a - b, 0.0
    slow_a, slow_b = a / amount_a, b / amount_b  # seconds of one FLOP, byte, fault or call
    work = 0.5 * (amount_a - amount_b) * (slow_a + slow_b)
    return work, (a - b) - work


def _faulting(sides: Sequence[Sequence[Watched]], keys: Sequence[Key], means: Sequence[Sequence[float]]) -> list[float]:
    """Return page faults per second of OS memory by side; 0 if faults are too few to explain the time."""
    seconds = [sum(t for key, t in zip(keys, side, strict=True) if key[1] == "OS memory") for side in means]
    faults = [mean([mean(process.faults) for process in side]) for side in sides]
    cost = [t / count if count > 0 else 0.0 for t, count in zip(seconds, faults, strict=True)]
    least = min([x for x in cost if x > 0], default=0.0)
    kept = [count if x <= NOT_FAULTS * least else 0.0 for x, count in zip(cost, faults, strict=True)]
    return [count / t if t else 0.0 for count, t in zip(kept, seconds, strict=True)]


def seen(key: Key, side: Sequence[Attribution]) -> str | None:
    """Return the kernel, `symbol (module)`, with most of a cell's samples; None without samples."""
    total: Counter[str] = Counter()
    for process in side:
        total += process.seen.get(key, Counter())
    return total.most_common(1)[0][0] if total else None


def covered(attributions: Sequence[Attribution]) -> dict[str, float | None]:
    """Return the shares of step time that samples, spans, names and threads cover, means over processes."""
    ratios: dict[str, float | None] = {}
    for name in ("sampling", "span", "naming", "threads"):
        values = [x for attribution in attributions if (x := attribution.closure.get(name)) is not None]
        ratios[name] = mean(values) if values else None
    return ratios


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean; 0 for an empty sequence."""
    return sum(values) / len(values) if values else 0.0


def systems(sides: Mapping[str, tuple[Sequence[Watched], int]]) -> dict[str, Any]:
    """Return a step's seconds in the operating system by its accounting, by side, per thread like cells.

    `system`: of a plain step; `watched_system`: of a watched step, missing in older recordings."""
    plain = {x: mean([s for process in side for s in process.system]) / threads for x, (side, threads) in sides.items()}
    same = {x: [s for process in side for s in process.watched_system] for x, (side, _) in sides.items()}
    watched = {x: mean(taken) / sides[x][1] for x, taken in same.items() if taken}
    return {"system": plain, "watched_system": watched}


def named(gap: Gap) -> list[Cell]:
    """Return the cells whose difference is significant and large enough to report."""
    return [x for x in gap.cells if x.sure and abs(x.gap) >= LEAST * max(gap.step.values())]


def named_bars(gap: Gap, what: str) -> list[Bar]:
    """Return the bars of `what` (cause, layer, phase) whose difference is significant and worth reporting."""
    return [x for x in gap.bars[what] if x.sure and abs(x.gap) >= LEAST * max(gap.step.values())]


def levels(watched: Sequence[Watched]) -> dict[str, float]:
    """Return the median time of a step at each level of watching, relative to an unwatched step."""
    from statistics import median

    plain = median(x for process in watched for x in process.levels["P0"])
    names = sorted({name for process in watched for name in process.levels} - {"P0"})
    return {name: median(x for p in watched for x in p.levels.get(name, [])) / plain for name in names}


def amounts(
    key: Key,
    attributions: Sequence[Sequence[Attribution]],
    by_name: Mapping[str, Row],
    seconds: Sequence[float],
    faulting: Sequence[float],
) -> list[float]:
    """Return a cell's amount of work by side, in the unit of its kind; 0 if it takes no time on a side.

    `faulting`: page faults per second of OS memory, by side. Bytes come from the spans if both sides report them,
    else they are nominal: one pass over the rows' operands."""
    members, column = key
    if column == "OS memory":
        faults = [sum(process.faults.get(members, 0.0) for process in side) / len(side) for side in attributions]
        shared = [t * rate for t, rate in zip(seconds, faulting, strict=True)]
        work = faults if all(process.faults for side in attributions for process in side) else shared
    elif column in PRODUCTS:
        traced = [sum(process.flops.get(key, 0.0) for process in side) / len(side) for side in attributions]
        work = traced if any(traced) else [_flops(key[0], side, by_name) for side in attributions]
    elif column == "recurrent cell" and (flops := sum(by_name[name].flops for name in members if name in by_name)):
        traced = [sum(process.flops.get(key, 0.0) for process in side) / len(side) for side in attributions]
        work = traced if all(traced) else [flops] * len(attributions)  # of one call or of hundreds
    elif column == "packing":
        products = [p for name in members if name in by_name and (p := by_name[name].product)]
        factors = sum(8.0 * p.k * (p.m + p.n) for p in products)  # bytes, read and written
        work = [factors or 1.0] * len(attributions)
    elif column in PASSES:
        work = _bytes(key, attributions, by_name)
    else:
        work = [max(1.0, _calls(members, side)) for side in attributions]
    return [amount if t > 0 else 0.0 for amount, t in zip(work, seconds, strict=True)]


def _calls(members: tuple[str, ...], side: Sequence[Attribution]) -> float:
    return sum(count for process in side for key, count in process.calls.items() if key[0] == members) / len(side)


def _flops(members: tuple[str, ...], side: Sequence[Attribution], by_name: Mapping[str, Row]) -> float:
    """Return the FLOP of the rows' products, each times its calls by the spans; 1 outside all rows."""
    if members == (OUTSIDE,):
        return 1.0
    rows = [by_name[name] for name in members if name in by_name]
    counts = [process.products.get(members, {}) for process in side]
    return sum(row.flops * sum(of.get(row.name, 1.0) for of in counts) for row in rows) / len(side)


def _bytes(key: Key, attributions: Sequence[Sequence[Attribution]], by_name: Mapping[str, Row]) -> list[float]:
    traced = [sum(process.bytes.get(key, 0.0) for process in side) / len(side) for side in attributions]
    nominal = sum(by_name[name].bytes for name in key[0] if name in by_name) or 1.0
    return traced if all(traced) else [nominal] * len(attributions)
