"""An explanation in sentences: the gap, its significant causes, and the significant cells inside them.

Each cell has its interval, its reason and the command that measures it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from macro.explaining import kinds
from macro.explaining.certain import LEAST
from macro.explaining.gap import Gap, levels, named_bars
from macro.watching.recording import Watched
from reports.explanation import Bar, Cell
from reports.units import scaled, seconds, signed


def sentences(gap: Gap, named: Sequence[Cell], subject: Subject) -> list[str]:
    """Return sentences on the gap, its significant causes, layers and phases, and the named cells."""
    a, b, names = gap.step["a"], gap.step["b"], subject.names
    low, high = gap.interval
    within = " within these processes" if subject.runs == 1 else ""
    lines = [
        f"{subject.title} takes {seconds(a)} in {names[0]} and {seconds(b)} in {names[1]}: a gap of {signed(a - b)} "
        f"[{signed(low)}, {signed(high)}]{within}.",
        *_watching(subject),
    ]
    if subject.heaps and not low <= 0 <= high:
        direct = sum(cell.gap for cell in gap.cells if cell.column == "OS memory")
        products = sum(cell.gap for cell in gap.cells if cell.column in ("gemm", "packing"))
        lines.append(
            f"Only the heap differs ({', '.join(subject.heaps)}), so the gap is the heap's effect: "
            f"{signed(direct)} in the operating system's memory management, {signed(a - b - direct)} elsewhere "
            f"({signed(products)} in products), as caches and pages have other contents."
        )
    causes = named_bars(gap, "cause")
    nothing = f"No cause certainly differs by {LEAST:.0%} of the step or more{within}."
    lines.append(f"Certain by cause: {_listed(causes)}." if causes else nothing)
    lines += [f"By {what}: {_listed(bars)}." for what in ("layer", "phase") if (bars := named_bars(gap, what))]
    for number, cell in enumerate(named, 1):
        where = cell.column if cell.column == cell.row else f"{cell.column}, {cell.row}"
        lines.append(
            f"{number}. {signed(cell.gap)} [{signed(cell.low)}, {signed(cell.high)}]: {where}: "
            f"{_cause(cell, names)}. Repeat: {cell.repeat}"
        )
    if causes and not named:
        lines.append(f"Inside these causes no single row certainly differs by {LEAST:.0%} of the step or more{within}.")
    return lines


def first_answer(gap: Gap, names: Sequence[str], rounds: int) -> str:
    """Return the gap and its significant causes after so many rounds, in one line."""
    difference, (low, high) = gap.step["a"] - gap.step["b"], gap.interval
    causes = named_bars(gap, "cause")
    return (
        f"so far, {rounds} rounds: {names[0]} takes {seconds(abs(difference))} {'more' if difference > 0 else 'less'} "
        f"than {names[1]} [{signed(low)}, {signed(high)}]; "
        + (f"certain by cause: {_listed(causes)}" if causes else "no cause is certain yet")
    )


def _watching(subject: Subject) -> list[str]:
    """Return a sentence on the overhead of watching, if both sides were watched with spans and samples."""
    watched = [levels(processes).get("P3") for processes in subject.processes]
    pairs = zip(watched, subject.names, strict=True)
    parts = [f"{over - 1:+.0%} in {name}" for over, name in pairs if over is not None]
    cost = "Watching changes the time of a step by " + " and ".join(parts)
    return [f"{cost}: times above are of plain steps, rows and causes of watched steps."] * (len(parts) == 2)


def _listed(bars: Sequence[Bar]) -> str:
    return ", ".join(
        f"{bar.name} {signed(bar.gap)}"
        + ("" if bar.low is None or bar.high is None else f" [{signed(bar.low)}, {signed(bar.high)}]")
        for bar in bars
    )


def _cause(cell: Cell, names: Sequence[str]) -> str:
    more, less = (0, 1) if cell.gap > 0 else (1, 0)
    side = "ab"
    if not cell.amount[side[less]]:
        by = f" by {cell.seen[side[more]]}" if cell.column in ("clear", "copy") and cell.seen[side[more]] else ""
        return f"{kinds.find(cell.column).cause or 'an extra operation'}{by}, which {names[less]} lacks"
    kernels = ", ".join(f"{name}{_speed(cell, x)} in {cell.seen[x]}" for name, x in zip(names, side, strict=True))
    mostly = "more work" if abs(cell.work or 0) > abs(cell.rate or 0) else "a lower rate"
    if cell.column == "gemm":
        if mostly == "more work":
            return f"an extra operation: {names[more]} has {mostly}"
        if _library(cell.seen["a"]) != _library(cell.seen["b"]):
            return f"another library ({kernels})"
        a, b = cell.how["a"], cell.how["b"]
        return f"transposition, {a} against {b}" if a != b else f"the kernel's rate ({kernels})"
    base = kinds.find(cell.column).cause
    if base is None:
        base = "extra passes" if mostly == "more work" else "the kernel's rate"
        return f"{base} ({kernels})"
    return f"{base}: {names[more]} has {mostly}"


def _speed(cell: Cell, side: str) -> str:
    """Format a GEMM's rate, which shows the instruction set that a kernel's name may not; else ""."""
    amount, took = cell.amount[side], cell.seconds(side)
    return f" at {scaled(amount / took, 'FLOP/s')}" if cell.column == "gemm" and amount and took else ""


def _library(seen: str | None) -> str:
    """Return the library in `seen`, the text `symbol (library)`, with its closing parenthesis."""
    return (seen or "").rpartition("(")[2]


@dataclass(frozen=True)
class Subject:
    """Title, names and processes of the two sides of an explanation."""

    title: str  # the subject of the first sentence, such as `A step of fcn-s, batch 64`
    names: Sequence[str]  # of both sides
    runs: int  # processes of each side
    processes: Sequence[Sequence[Watched]]
    heaps: tuple[str, str] | None = None  # of both sides, if only the heap differs; else None
