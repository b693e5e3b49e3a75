"""A round's data in few bytes of JSON, and back: for a note of a run file."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from macro.watching.load import Load
from macro.watching.perf import Sample, Switch
from macro.watching.recording import Watched

FIRST_PERIOD = 1_000_000  # nanoseconds between two samples, of files that do not say
Nanoseconds: TypeAlias = int | float  # some tracers have parts of one


@dataclass(frozen=True)
class Packed:
    """Watched data with each thing that repeats (the name of a span, a symbol) once.
    Times are nanoseconds since the one before, of the first since 0."""

    levels: dict[str, list[float]]
    faults: list[float]
    system: list[float]
    steps: list[tuple[int, int, float, float]]
    rounds: list[int]
    calls: list[tuple[list[str], str | None]]
    replays: list[tuple[float, list[float]]]
    traces: bool
    span_kinds: list[dict[str, Any]]  # all of a span but its times
    spans: list[tuple[Nanoseconds, Nanoseconds, int]]  # start, how long it took, kind
    sample_kinds: list[tuple[int, str, str]]  # thread, symbol, module
    samples: list[tuple[int, int]]  # time, kind
    switch_kinds: list[tuple[int, str]]  # thread, state
    switches: list[tuple[int, int]]  # time, kind
    fault_kinds: list[tuple[int, str, str]] = field(default_factory=list)  # as sample_kinds
    page_faults: list[tuple[int, int]] = field(default_factory=list)
    faulted: dict[str, list[float]] = field(default_factory=dict)
    period: int = FIRST_PERIOD
    retaken: int = 0
    watched_system: list[float] = field(default_factory=list)
    load: list[Load] = field(default_factory=list)


class Kinds:
    """Numbers things in the order met."""

    def __init__(self) -> None:
        self.kinds: list[Any] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, kind: Any) -> int:
        number = self._numbers.setdefault(repr(kind), len(self.kinds))
        if number == len(self.kinds):
            self.kinds.append(kind)
        return number


def packed(watched: Watched) -> Packed:
    """Pack watched data for a note."""
    of_span, of_sample, of_switch, of_fault = Kinds(), Kinds(), Kinds(), Kinds()
    starts = _gaps([span["start"] for span in watched.spans])
    spans = [
        (start, span["end"] - span["start"], of_span({k: v for k, v in span.items() if k not in ("start", "end")}))
        for start, span in zip(starts, watched.spans, strict=True)
    ]
    samples, faults = _samples(watched.samples, of_sample), _samples(watched.page_faults, of_fault)
    times = _gaps([switch.time for switch in watched.switches])
    switches = [
        (time, of_switch((switch.thread, switch.state))) for time, switch in zip(times, watched.switches, strict=True)
    ]
    return Packed(
        watched.levels,
        watched.faults,
        watched.system,
        watched.steps,
        watched.rounds,
        watched.calls,
        watched.replays,
        watched.traces,
        of_span.kinds,
        spans,
        of_sample.kinds,
        samples,
        of_switch.kinds,
        switches,
        of_fault.kinds,
        faults,
        watched.faulted,
        watched.period,
        watched.retaken,
        watched.watched_system,
        watched.load,
    )


def unpacked(note: Packed) -> Watched:
    """Restore watched data. Raises IndexError where a note is malformed."""
    spans: list[dict[str, Any]] = []
    at: Any = 0
    for start, took, kind in note.spans:
        at += start
        spans.append({"start": at, "end": at + took, **note.span_kinds[kind]})
    switches, at = list[Switch](), 0
    for time, kind in note.switches:
        at += time
        thread, state = note.switch_kinds[kind]
        switches.append(Switch(thread, at, state))
    samples = _unpacked(note.samples, note.sample_kinds)
    watched = Watched(note.levels, note.faults, note.system, note.steps, note.rounds, spans, samples, switches)
    watched.calls, watched.replays, watched.traces = note.calls, note.replays, note.traces
    watched.page_faults = _unpacked(note.page_faults, note.fault_kinds)
    watched.faulted, watched.period, watched.retaken = note.faulted, note.period, note.retaken
    watched.watched_system, watched.load = note.watched_system, note.load
    return watched


def _samples(samples: Sequence[Sample], number: Kinds) -> list[tuple[int, int]]:
    times = _gaps([sample.time for sample in samples])
    return [
        (time, number((sample.thread, sample.symbol, sample.module)))
        for time, sample in zip(times, samples, strict=True)
    ]


def _unpacked(packed: Sequence[tuple[int, int]], kinds: Sequence[tuple[int, str, str]]) -> list[Sample]:
    samples, at = [], 0
    for time, kind in packed:
        at += time
        thread, symbol, module = kinds[kind]
        samples.append(Sample(thread, at, symbol, module))
    return samples


def _gaps(times: Sequence[Any]) -> list[Any]:
    """Return the distance of each time from the one before."""
    return [time - before for before, time in itertools.pairwise((0, *times))]
