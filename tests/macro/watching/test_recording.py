"""Rounds of processes on stand-ins: which count, what a note holds of them, and what is left of a plan."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kernels.errors import UsageError
from macro.networks.base import chain
from macro.timing.entry import FEWEST, Plan
from macro.timing.resume import left, spent
from macro.watching import recording, resume
from macro.watching.packed import Packed, packed, unpacked
from macro.watching.perf import Sample, Seen, Switch
from macro.watching.recording import Round, Watched
from reports.record import Environment, Note, Run

NET = chain("tiny", "a test", 16, (6, 5, 3), rate=0.1)
AT = 5_000_000_000  # nanoseconds


def seen(number: int, samples: bool = True) -> Watched:
    """A round of two steps that began at a time of its own."""
    start = AT + number * 1_000_000
    steps = [(start, start + 400, 4e-7, 0.0), (start + 500, start + 900, 4e-7, 1e-9)]
    spans: list[dict[str, Any]] = [
        {"start": at, "end": at + 100, "name": "dot", "rows": ["fc1 forward"], "column": "gemm", "bytes": 12}
        for at in (start, start + 500)
    ]
    watched = Watched({"P0": [1.0 + number], "P3": [2.0]}, [3.0], [0.25], steps, [number] * 2, spans=spans)
    watched.calls, watched.replays = [(["fc1 forward"], "gemm")], [(1.0, [0.5]), (1.0, [0.5 + number])]
    if samples:
        watched.samples = [Sample(7, start + 10, "sgemm", "/lib/a.so"), Sample(7, start + 20, "f(int)", "/lib/b c.so")]
        watched.switches = [Switch(7, start + 1, "in"), Switch(8, start + 2, "preempt"), Switch(7, start + 3, "out")]
    return watched


def rounds(process: int, *counts: int, ended: bool = False) -> list[Round]:
    """So many of each side, a second each."""
    taken = []
    for side, count in enumerate(counts):
        for number in range(count):
            about = {"identity": {"framework": f"of {side}"}, "built": {}} if number == 0 else {}
            taken.append(Round(side, process, number, number + 1.0, False, seen(number), about))
        if ended:
            taken.append(Round(side, process, count - 1, float(count), True, Watched({"P0'": [9.0]})))
    return taken


def noted(*notes: Note) -> Run:
    """As it comes from a file."""
    return Run(
        Environment("", {}, {}, "", ""), notes=tuple(msgspec.json.decode(msgspec.json.encode(notes), type=list[Note]))
    )


@pytest.mark.parametrize("samples", [True, False])
def test_a_round_is_the_same_out_of_its_note(samples: bool) -> None:
    taken = [Round(1, 2, 3, 4.5, False, seen(3, samples), {"identity": {"a": [1]}, "built": {}})]
    assert resume.rounds(noted(*map(resume.note, taken))) == taken


def test_what_was_not_seen_is_nothing() -> None:
    assert unpacked(packed(Watched())) == Watched()
    assert unpacked(packed(Watched(traces=False))).traces is False


def test_what_repeats_is_in_a_note_once() -> None:
    one = packed(seen(0))
    assert len(one.span_kinds) == 1 and len(one.spans) == 2
    assert [kind for _, kind in one.switches] == [0, 1, 2]
    assert one.samples == [(AT + 10, 0), (10, 1)]


LOST = ({name: None} for name in ("levels", "faults", "system", "steps", "rounds"))


@pytest.mark.parametrize(
    "harm", [{"samples": [[5, 9]]}, {"spans": [[1, 2, 4]]}, {"steps": ["x"]}, {"levels": 3}, *LOST]
)
def test_a_round_that_cannot_be_read_is_one_line(harm: dict[str, Any]) -> None:
    note = resume.note(Round(0, 0, 0, 1.0, False, seen(0)))
    broken = {key: x for key, x in {**note.data["watched"], **harm}.items() if x is not None}
    with pytest.raises(UsageError, match=r"a round in the file cannot be read .*: name another file"):
        resume.rounds(noted(Note(note.topic, {**note.data, "watched": broken})))


def test_a_process_is_its_rounds_one_after_another() -> None:
    (process,) = recording.processes(rounds(0, FEWEST, FEWEST, ended=True), 0)
    assert process.levels == {"P0": [1.0 + i for i in range(FEWEST)], "P3": [2.0] * FEWEST, "P0'": [9.0]}
    assert process.rounds == [i for i in range(FEWEST) for _ in range(2)]
    assert len(process.steps) == len(process.spans) == len(process.samples) == 2 * FEWEST
    assert process.calls == [(["fc1 forward"], "gemm")] and len(process.replays) == 2 * FEWEST


def test_samples_outside_of_a_rounds_steps_are_not_its_own() -> None:
    watched = Watched(steps=[(10, 20, 0.0, 0.0), (30, 40, 0.0, 0.0)])
    samples = [Sample(1, at, "f", "m") for at in (9, 10, 25, 40, 41)]
    watched.sampled(Seen(samples, [Switch(1, at, "in") for at in (9, 12, 41)], []))
    assert [one.time for one in watched.samples] == [10, 25, 40]
    assert [one.time for one in watched.switches] == [12]


PLAN = Plan(NET, 16, "step", 60.0, 2)


@pytest.mark.parametrize(
    ("taken", "counts", "first", "missing", "seconds"),
    [
        ([], [], 0, 2, 60.0),
        (rounds(0, FEWEST - 1, FEWEST - 1), [], 1, 2, 60.0),  # killed before it counts
        (rounds(0, FEWEST, 0), [], 1, 2, 60.0),  # the other side's notes were not written any more
        (rounds(0, 9, 8), [8], 1, 2, 51.0),  # killed: what is left is for another pair
        (rounds(0, 9, 9, ended=True), [9], 1, 1, 51.0),
        (rounds(0, 9, 9, ended=True) + rounds(1, 7, 7), [9, 7], 2, 1, 44.0),
        (rounds(0, 7, 7) + rounds(1, 8, 8) + rounds(2, 3, 3), [7, 8], 3, 2, 45.0),  # killed three times
        (rounds(0, 40, 40, ended=True) + rounds(1, 40, 40, ended=True), [40, 40], 2, 0, 0.0),
    ],
)
def test_which_count_and_what_is_left(
    taken: list[Round], counts: list[int], first: int, missing: int, seconds: float
) -> None:
    pairs = recording.pairs(taken)
    for side in (0, 1):
        assert [len(process.levels["P0"]) for process in recording.processes(taken, side)] == counts
    rest = left(PLAN, pairs)
    assert (rest.first, rest.generations, rest.seconds) == (first, missing, seconds)
    assert spent(pairs) == 60.0 - seconds or seconds == 0.0


def test_a_killed_pair_has_the_rounds_of_both() -> None:
    """The longer side's last round has no partner, nor has what came after it."""
    taken = [one for one in rounds(0, 9, 8, ended=True) if not (one.ended and one.side == 1)]
    a, b = (recording.processes(taken, side)[0] for side in (0, 1))
    assert len(a.levels["P0"]) == len(b.levels["P0"]) == 8
    assert "P0'" not in a.levels and a.rounds == b.rounds


def test_a_note_is_short() -> None:
    """A thousand spans of one kind take so many bytes each: two times and a number."""
    watched = Watched(
        spans=[{**seen(0).spans[0], "start": AT + i * 10**5, "end": AT + i * 10**5 + 999} for i in range(1000)]
    )
    text = json.dumps(msgspec.to_builtins(packed(watched)))
    assert len(text) < 22_000
    assert len(unpacked(msgspec.json.decode(text, type=Packed)).spans) == 1000


def test_threads_that_never_ran_do_not_wait() -> None:
    program = {"threads": 3, "settings": {"cores": 2}}
    assert recording.Recording(program, [seen(0)]).running == 1  # samples of a single thread
    assert recording.Recording(program, [seen(0, samples=False)]).running == 2
    other = seen(1)
    other.samples = [Sample(8, AT, "spin", "/lib/a.so")]
    assert recording.Recording(program, [seen(0), other]).running == 1  # of each process
    both = seen(0)
    both.samples += [Sample(8, AT, "spin", "/lib/a.so"), Sample(9, AT, "spin", "/lib/a.so")]
    assert recording.Recording(program, [both]).running == 2
