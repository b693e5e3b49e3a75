"""Answers of micro/cpu.py: instruction sets and threads together, and saturation by threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from micro.findings.select import faster, grouped
from micro.planning.contest import parse
from reports import record, units
from reports.record import Run

SETS = {"sse4.2": "SSE4.2", "avx": "AVX", "avx2": "AVX2", "avx512": "AVX-512", "default": "the default set"}
BELIEVED = "by the compiler's word"  # in the name of a kernel whose machine code could not be inspected
LITTLE = 0.1  # share of the ideal gain below which additional threads count as useless


def _head(contest: record.Contest) -> str:
    """Format what was measured: `product 256³, blocked`."""
    return f"{contest.question.partition(':')[0]}, {parse(contest.results[0].name).variant}"


def grid(run: Run) -> list[str]:
    """Return the sentences of `--grid`: gains of each kernel, then the verified instruction sets."""
    sentences = []
    for group in grouped(run, "grid/"):
        base = group[0].baseline.setting
        gains = {(x.contender.setting.isa, x.contender.setting.threads): faster(x.comparison) for x in group}
        widest, most = group[-1].contender.setting.isa, group[-1].contender.setting.threads
        words = []
        if (widest, base.threads) in gains:
            words.append(f"{SETS.get(widest, widest)} alone {gains[widest, base.threads]}")
        if (base.isa, most) in gains:
            words.append(f"{most} threads alone {gains[base.isa, most]}")
        if widest != base.isa and most != base.threads and (widest, most) in gains:
            words.append(f"both {gains[widest, most]}")
        if words:
            where = f"{SETS.get(base.isa, base.isa)} on one thread"
            sentences.append(f"{_head(group[0].contest)}, times as fast as {where}: {', '.join(words)}.")
    return [*sentences, *verified(run)]


def verified(run: Run) -> list[str]:
    """Report how many cells ran the requested instruction set, and the reasons why others were skipped."""
    asked = [x for x in run.measured if x.isa]
    seen = [x for x in asked if x.isa_observed == x.isa]
    believed = [x for x in seen if x.kernel and BELIEVED in x.kernel]
    reasons = dict.fromkeys(f"{parse(x.name).variant}: {x.reason}" for x in asked if x.reason)
    if not asked:
        return []
    by_compiler = f", {len(believed)} according to the compiler only" if believed else ""
    left = f"; not measured: {'; '.join(reasons)}" if reasons else ""
    head = f"{len(seen)} of {len(asked)} cells ran the requested set, according to machine code or library"
    return [f"{head}{by_compiler}{left}."]


@dataclass(frozen=True)
class Serial:
    """Fit of T(n)/T(1) = s + (1 − s)/n (Amdahl 1967), by least squares.

    Shared bandwidth and per-thread packing are part of s. It is negative if n threads are over n times as fast."""

    share: float  # s
    low: float  # fitted to the lower ends of the ratios' intervals, as `high` to the upper ends
    high: float
    off: float  # largest distance of a ratio from the curve


def serial(ratios: Sequence[tuple[int, float, float, float]]) -> Serial:
    """Fit Amdahl's law to rows of (threads, ratio, low, high)."""
    weights = [(many, 1 - 1 / many) for many, *_ in ratios]
    norm = sum(weight**2 for _, weight in weights)
    shares = [
        sum((row[i] - 1 / many) * weight for row, (many, weight) in zip(ratios, weights, strict=True)) / norm
        for i in (1, 2, 3)
    ]
    off = max(abs(ratio - 1 / many - shares[0] * (1 - 1 / many)) for many, ratio, *_ in ratios)
    share, low, high = shares
    return Serial(share, low, high, off)


def saturation(run: Run) -> list[str]:
    """Return the sentences of `--saturation`: speed-up, serial share and share of ceiling by kernel."""
    sentences = []
    for group in grouped(run, "threads/"):
        ends = [x for x in group if x.comparison.low is not None and x.comparison.high is not None]
        rows: list[Any] = [
            (x.contender.setting.threads, x.comparison.ratio, x.comparison.low, x.comparison.high) for x in ends
        ]
        if not rows:
            continue
        gains = ", ".join(f"{x.contender.setting.threads} threads {faster(x.comparison)}" for x in group)
        fit = serial(rows)
        share = f"Amdahl's s {100 * fit.share:.0f} % [{100 * fit.low:.0f}, {100 * fit.high:.0f}]"
        share += f", largest deviation of the fit {fit.off:.2f}" if len(rows) > 1 else ""
        sentences.append(
            f"{_head(group[0].contest)}, times as fast as one thread: {gains}; {share}; {_until(rows)}"
            f"{_of_ceiling(group[0].contest)}."
        )
    return sentences


def _until(rows: Sequence[tuple[int, float, float, float]]) -> str:
    """Format the thread count beyond which more threads bring less than LITTLE of their ideal gain.

    The more favorable end of each interval counts."""
    taken = [(1, 1.0, 1.0, 1.0), *rows]
    for i, (few, _, _, high) in enumerate(taken[:-1]):
        if all(high / low - 1 < LITTLE * (many / few - 1) for many, _, low, _ in taken[i + 1 :]):
            return f"saturated from {units.counted(few, 'thread')} on"
    return f"not saturated by {taken[-1][0]}"


def _of_ceiling(contest: record.Contest) -> str:
    """Format shares of ceilings: `; of read 256 MiB 97 %, of that of 2 threads 95 %`."""
    shares = [
        f"{x.percent_of_ceiling:.0f} % of {x.ceiling}" for x in contest.measured if x.percent_of_ceiling is not None
    ]
    return f"; {', '.join(shares)}" if shares else ""
