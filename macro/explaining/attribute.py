"""Attribution of samples to spans: a step's time by row, kind of work (column) and step.

A sample belongs to the innermost span around its time, on the same thread if threads are known. Nothing is rescaled.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from macro.explaining import kinds
from macro.explaining.rows import Row, passes, together
from macro.explaining.waiting import waiting
from macro.watching.perf import FAULTS, Sample
from macro.watching.recording import Watched

Rows = tuple[str, ...]

Key = tuple[tuple[str, ...], str]  # rows, column


@dataclass
class Attribution:
    """Seconds of one process's steps by cell (rows, column), with calls, bytes, FLOP and page faults."""

    steps: int
    rounds: list[int] = field(default_factory=list)  # the number of each step's round
    cells: dict[Key, list[float]] = field(default_factory=dict)  # seconds of each step
    calls: dict[Key, float] = field(default_factory=dict)  # innermost spans per step
    bytes: dict[Key, float] = field(default_factory=dict)  # of the calls' operands per step, if spans report them
    flops: dict[Key, float] = field(default_factory=dict)  # per step, if shapes are known
    products: dict[tuple[str, ...], dict[str, float]] = field(default_factory=dict)  # GEMM calls per step of each row
    seen: dict[Key, Counter[str]] = field(default_factory=dict)  # symbols of samples
    named: dict[Key, Counter[str]] = field(default_factory=dict)  # samples by the innermost operation around them
    faults: dict[tuple[str, ...], float] = field(default_factory=dict)  # page faults per step by rows, from perf
    closure: dict[str, float | None] = field(default_factory=dict)  # shares of time covered, see docs/explain.md

    def by_round(self, keys: Sequence[Key]) -> Any:
        """Return mean seconds of a step, rounds × cells; the steps of a round are one statistical cluster."""
        import numpy as np

        rounds = np.array(self.rounds)
        steps = np.array([self.cells.get(key, [0.0] * self.steps) for key in keys]).T
        return np.array([steps[rounds == number].mean(axis=0) for number in sorted(set(self.rounds))])


class Place(NamedTuple):
    """Rows and kind of work (column) of the spans that contain a moment."""

    rows: tuple[str, ...]
    column: str | None
    inside: bool  # whether a span with rows contains the moment
    name: str = ""  # of the innermost span, if its tracer names spans


def attribute(watched: Watched, group: Mapping[str, tuple[str, ...]], threads: int) -> Attribution:
    """Attribute one process's samples, or else its spans' times, to cells; a group counts as one row."""
    attribution = Attribution(len(watched.steps), watched.rounds)
    starts = [start for start, *_ in watched.steps]
    wall = sum(end - start for start, end, *_ in watched.steps) * 1e-9
    cpu, lasts = sum(cpu for _, _, cpu, _ in watched.steps), watched.period * 1e-9
    if watched.samples:
        stepping = [(s, step) for s in watched.samples if (step := _step(watched, starts, s.time)) is not None]
        places = locate(watched.spans, [sample for sample, _ in stepping])
        outside = unknown = 0
        for (sample, step), place in zip(stepping, places, strict=True):
            column = kinds.joined(kinds.of_symbol(sample.symbol, sample.module), place.column)
            outside += not place.inside
            unknown += column.startswith("unknown")
            key = (together(place.rows, group), column)
            _add(attribution, key, step, lasts)
            attribution.seen.setdefault(key, Counter())[_kernel(sample)] += 1
            attribution.named.setdefault(key, Counter())[place.name] += 1
        count = len(stepping)
        attribution.closure = {
            "sampling": count * lasts / cpu if cpu else None,
            "span": 1 - outside / count if watched.traces and count else None,
            "naming": 1 - unknown / count if count else None,
        }
    else:
        _by_spans_alone(attribution, watched, starts, group)
    attribution.closure["threads"] = cpu / (threads * wall) if wall else None
    if watched.samples:
        attribution.cells.update(waiting(watched, threads, group))
        for key, seconds in attribution.cells.items():  # thread seconds to wall seconds, so that cells sum to a step
            attribution.cells[key] = [x / threads for x in seconds]
    inside = [fault for fault in watched.page_faults if _step(watched, starts, fault.time) is not None]
    faults = Counter(together(place.rows, group) for place in locate(watched.spans, inside))
    attribution.faults = {rows: count * FAULTS / attribution.steps for rows, count in faults.items()}
    _count(attribution, [x for x in watched.spans if _step(watched, starts, x["start"]) is not None], group)
    return attribution


def _count(attribution: Attribution, spans: Sequence[dict[str, Any]], group: Mapping[str, tuple[str, ...]]) -> None:
    """Add to the attribution the calls, bytes and products of the spans within steps."""
    for span, key in _leaves(spans, group):
        attribution.calls[key] = attribution.calls.get(key, 0.0) + 1.0 / attribution.steps
        attribution.bytes[key] = attribution.bytes.get(key, 0.0) + span.get("bytes", 0) / attribution.steps
    for span in spans:
        if span.get("product"):
            counts = attribution.products.setdefault(together(span["rows"], group), {})
            for name in span["rows"]:
                counts[name] = counts.get(name, 0.0) + span["product"] / attribution.steps


def _kernel(sample: Sample) -> str:
    module = sample.module.rpartition("/")[2]
    return f"{sample.symbol} ({'generated code' if module.startswith('perf-') else module})"


def _add(attribution: Attribution, key: Key, step: int, seconds: float) -> None:
    attribution.cells.setdefault(key, [0.0] * attribution.steps)[step] += seconds


def _step(watched: Watched, starts: Sequence[int], time: int) -> int | None:
    at = bisect.bisect_right(starts, time) - 1
    return at if at >= 0 and time <= watched.steps[at][1] else None


def locate(spans: Iterable[dict[str, Any]], samples: Sequence[Sample]) -> list[Place]:
    """Return each sample's place: rows of the innermost span with rows, column of the innermost span."""
    waiting = sorted(spans, key=lambda span: (span["start"], -span["end"]))
    threads = {span.get("thread") for span in waiting} - {None}
    order = sorted(range(len(samples)), key=lambda i: samples[i].time)
    places = [Place((), None, False)] * len(samples)
    open_: list[dict[str, Any]] = []
    at = 0
    for i in order:
        sample = samples[i]
        while at < len(waiting) and waiting[at]["start"] <= sample.time:
            open_.append(waiting[at])
            at += 1
        open_ = [span for span in open_ if span["end"] >= sample.time]
        of_thread = [s for s in open_ if s.get("thread") == sample.thread] if sample.thread in threads else []
        around = of_thread or [s for s in open_ if not s.get("background")]
        rows: list[str] = next((span["rows"] for span in reversed(around) if span["rows"]), [])
        inner: Mapping[str, Any] = around[-1] if around else {"column": None}
        places[i] = Place(tuple(rows), _column(inner), bool(rows), inner.get("name", ""))
    return places


def _column(span: Mapping[str, Any]) -> str | None:
    """Return the name of a span's kind of work; None if the span has none."""
    return kinds.named(span["column"]) if span["column"] else None


def _leaves(spans: Iterable[dict[str, Any]], group: Mapping[str, tuple[str, ...]]) -> list[tuple[Any, Key]]:
    """Return the spans that count as calls: with rows and column, not a `part`, innermost of their column."""
    leaves: list[tuple[Any, Key]] = []
    inner: dict[str, int] = {}  # end of the span seen last, by column (spans come latest start first)
    for span in sorted(
        (s for s in spans if s["rows"] and s["column"] and not s.get("part")), key=lambda s: (-s["start"], s["end"])
    ):
        if inner.get(span["column"], span["end"] + 1) > span["end"]:
            leaves.append((span, (together(span["rows"], group), kinds.named(span["column"]))))
        inner[span["column"]] = span["end"]
    return leaves


def _by_spans_alone(
    attribution: Attribution, watched: Watched, starts: Sequence[int], group: Mapping[str, tuple[str, ...]]
) -> None:
    """Attribute time without samples: each span's duration less the durations of the spans inside it."""
    stack: list[dict[str, Any]] = []
    inside = 0.0
    for span in sorted(watched.spans, key=lambda s: (s["start"], -s["end"])):
        step = _step(watched, starts, span["start"])
        if step is None:
            continue
        while stack and stack[-1]["end"] <= span["start"]:
            stack.pop()
        at, end = span["start"], min(span["end"], watched.steps[step][1])
        rows = span["rows"] or (stack[-1]["rows"] if stack else [])
        _add(attribution, (together(rows, group), _column(span) or "dispatch"), step, (end - at) * 1e-9)
        for above in reversed(stack):  # an enclosing span may end before this span
            within = min(end, above["end"]) - at
            if within > 0:
                key = (together(above["rows"], group), _column(above) or "dispatch")
                _add(attribution, key, step, -within * 1e-9)
                at += within
        inside += (end - at) * 1e-9
        stack.append({**span, "end": end, "rows": rows})
    wall = sum(end - start for start, end, *_ in watched.steps) * 1e-9
    attribution.closure = {"sampling": None, "span": inside / wall if wall else None, "naming": None}


def shares(rows: Rows, group: Mapping[str, Rows], by_name: Mapping[str, Row]) -> Iterator[tuple[Rows, float]]:
    """Yield each group of these rows with its share of their common operation, by bytes if a memory pass."""
    groups = list(dict.fromkeys(group.get(name, (name,)) for name in rows))
    if len(groups) == 1 or not passes(rows, by_name):
        yield groups[0], 1.0
        return
    touched = {name: by_name[name].bytes for name in rows}
    total = sum(touched.values())
    for members in groups:
        yield members, sum(touched[name] for name in members if name in touched) / total


def split(sums: Mapping[Rows, float], group: Mapping[str, Rows], by_name: Mapping[str, Row]) -> dict[Rows, float]:
    """Convert sums by rows into sums by group, divided by `shares`."""
    totals: dict[Rows, float] = {}
    for rows, value in sums.items():
        for members, part in shares(rows, group, by_name):
            totals[members] = totals.get(members, 0.0) + part * value
    return totals


def shared(of: Attribution, group: Mapping[str, Rows], by_name: Mapping[str, Row]) -> Attribution:
    """Return the attribution with each cell of several groups divided among them, by `shares`."""
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
