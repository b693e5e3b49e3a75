"""Compact JSON form of a round's data for notes of a run file: unique values once, times delta-coded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from macro.watching.perf import Sample, Switch
from macro.watching.recording import Blocks, Watched

FIRST_PERIOD = 1_000_000  # nanoseconds between two samples, for files without a period
Nanoseconds: TypeAlias = int | float  # some tracers report fractions


@dataclass
class Packed(Blocks):
    """Watched data with unique values stored once and times delta-coded in nanoseconds."""

    levels: dict[str, list[float]]  # these five without a default: a note that lacks one cannot be read
    faults: list[float]
    system: list[float]
    steps: list[tuple[int, int, float, float]]
    rounds: list[int]
    period: int = FIRST_PERIOD
    span_kinds: list[dict[str, Any]] = field(default_factory=list)  # spans without times
    spans: list[tuple[Nanoseconds, Nanoseconds, int]] = field(default_factory=list)  # start, duration, index of kind
    sample_kinds: list[tuple[int, str, str]] = field(default_factory=list)  # thread, symbol, module
    samples: list[tuple[int, int]] = field(default_factory=list)  # time, index of kind
    switch_kinds: list[tuple[int, str]] = field(default_factory=list)  # thread, state
    switches: list[tuple[int, int]] = field(default_factory=list)  # time, index of kind
    fault_kinds: list[tuple[int, str, str]] = field(default_factory=list)  # as sample_kinds
    page_faults: list[tuple[int, int]] = field(default_factory=list)


def packed(watched: Watched) -> Packed:
    """Pack watched data for a note of a run file."""
    note = Packed(**_blocks(watched))
    span_kinds = [{name: x[name] for name in x if name not in ("start", "end")} for x in watched.spans]
    note.span_kinds, starts = _numbered(zip((x["start"] for x in watched.spans), span_kinds, strict=True))
    note.spans = [(at, x["end"] - x["start"], kind) for (at, kind), x in zip(starts, watched.spans, strict=True)]
    note.sample_kinds, note.samples = _numbered((x.time, (x.thread, x.symbol, x.module)) for x in watched.samples)
    note.switch_kinds, note.switches = _numbered((x.time, (x.thread, x.state)) for x in watched.switches)
    note.fault_kinds, note.page_faults = _numbered(
        (x.time, (x.thread, x.symbol, x.module)) for x in watched.page_faults
    )
    return note


def unpacked(note: Packed) -> Watched:
    """Restore watched data from a note. Raises IndexError if the note is malformed."""
    watched = Watched(**_blocks(note))
    starts = _times([(start, kind) for start, _, kind in note.spans], note.span_kinds)
    both = zip(starts, note.spans, strict=True)
    watched.spans = [{"start": at, "end": at + took, **kind} for (at, kind), (_, took, _) in both]
    watched.samples = _samples(note.samples, note.sample_kinds)
    watched.switches = [Switch(x, at, state) for at, (x, state) in _times(note.switches, note.switch_kinds)]
    watched.page_faults = _samples(note.page_faults, note.fault_kinds)
    return watched


def _blocks(data: Blocks) -> dict[str, Any]:
    """Return the fields that packed and watched data have in common."""
    return {x.name: vars(data)[x.name] for x in fields(Blocks)}


def _numbered(things: Iterable[tuple[Any, Any]]) -> tuple[list[Any], list[tuple[Any, int]]]:
    """Return the unique kinds, and for each (time, kind) the delta-coded time and the kind's index."""
    kinds, numbers, rows, before = list[Any](), dict[str, int](), list[tuple[Any, int]](), 0
    for time, kind in things:
        number = numbers.setdefault(repr(kind), len(kinds))
        if number == len(kinds):
            kinds.append(kind)
        rows.append((time - before, number))
        before = time
    return kinds, rows


def _times(rows: Sequence[tuple[Any, int]], kinds: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the time and the kind of each delta-coded row."""
    at = 0
    for gap, number in rows:
        at += gap
        yield at, kinds[number]


def _samples(rows: Sequence[tuple[int, int]], kinds: Sequence[tuple[int, str, str]]) -> list[Sample]:
    return [Sample(thread, at, symbol, module) for at, (thread, symbol, module) in _times(rows, kinds)]
