"""An explanation that is stopped, gone on with and told meanwhile, on stand-ins: nothing runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.errors import LaunchError, SuiteError, UsageError
from macro.explaining import breakdown, document, measure, pair
from macro.networks import find
from macro.timing.entry import FEWEST, Plan
from macro.watching import kg, resume, watch
from macro.watching.recording import Round, Watched
from macro.watching.watch import Side
from reports import attribution, store
from reports.record import Environment
from tests.macro.explaining.sides import FAST, PLAN, ROUNDS, SLOW, side
from tests.macro.watched import MS

ENVIRONMENT = Environment("of a test", {}, {"plan": "0"}, "explain", "")
STRANGE = [("f", "/lib/f.so")] * 3
Keep = Callable[[Sequence[Round]], None]


def both() -> list[Side]:
    """Nothing was watched yet."""
    return [replace(side("numpy", SLOW, more=STRANGE), processes=[]), replace(side("jax", FAST), processes=[])]


def cut(whole: Watched, number: int) -> Watched:
    """What a round added; those of a process begin 100 ms apart."""
    later = (number - (at := number % ROUNDS)) * 100 * MS
    start, end, *clocks = whole.steps[at]
    one = Watched({"P0": [whole.levels["P0"][at]], "P3": [whole.levels["P3"][at]]}, [7.0], [0.001])
    one.steps, one.rounds = [(start + later, end + later, *clocks)], [number]
    inside = [x for x in whole.spans if start - MS <= x["start"] <= end]
    one.spans = [{**x, "start": x["start"] + later, "end": x["end"] + later} for x in inside]
    one.samples = [x._replace(time=x.time + later) for x in whole.samples if start <= x.time <= end]
    return one


def rounds(process: int, count: int, ended: bool = False) -> list[Round]:
    """So many of each side, half a second each."""
    (slow,), (fast,) = (side("numpy", SLOW, more=STRANGE).processes, side("jax", FAST).processes)
    taken = []
    for number in range(count):
        for which, whole in enumerate((slow, fast)):
            about = {"identity": {"version": f"{process}"}, "built": {}} if number == 0 else {}
            taken.append(Round(which, process, number, 0.5 * (number + 1), False, cut(whole, number), about))
    if ended:
        taken += [Round(s, process, count - 1, 0.5 * count, True, Watched({"P0'": [0.01]})) for s in (0, 1)]
    return taken


class Stub:
    """Instead of watching: gives these rounds, then does `then`. Keeps what was planned."""

    def __init__(self, batches: Sequence[Sequence[Round]], then: BaseException | None = None) -> None:
        self.batches, self.then = batches, then
        self.plans: list[Plan] = []

    def __call__(self, plan: Plan, sides: Sequence[Side], folder: Path, say: Callable[[str], None], keep: Keep) -> None:
        self.plans.append(plan)
        for batch in self.batches:
            keep(batch)
        if self.then:
            raise self.then


def explained(
    monkeypatch: pytest.MonkeyPatch, stub: Stub, path: Path | None, plan: Plan = PLAN, lines: list[str] | None = None
) -> tuple[measure.Kept, attribution.Explanation, int]:
    monkeypatch.setattr(watch, "take", stub)
    said: list[str] = [] if lines is None else lines
    file = store.RunFile(path, ENVIRONMENT, resume=True)
    try:
        kept = measure.Kept(plan, both(), file, said.append)
        note, code = measure.measure(kept, False, said.append)
    finally:
        file.close()
    return kept, attribution.of(replace(file.run, notes=(note,)))[0], code


def test_what_a_killed_run_left_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As if it had not been killed: the same document from the file and from memory."""
    path, plan = tmp_path / "run.jsonl", replace(PLAN, seconds=10.0, generations=2)
    with pytest.raises(MemoryError):  # none that it is told from: as good as a kill
        explained(monkeypatch, Stub([rounds(0, 8)], MemoryError()), path, plan)
    killed = path.read_bytes()
    rest = Stub([rounds(1, 7, ended=True), rounds(2, 6, ended=True)])
    lines: list[str] = []
    _, resumed, code = explained(monkeypatch, rest, path, plan, lines)
    (left,) = rest.plans
    assert (left.first, left.generations, left.seconds) == (1, 2, 6.0)
    assert code == 0 and resumed.runs == 3
    assert resumed.identity == ({"version": "0"}, {"version": "0"})
    assert lines[0] == f"{path} holds 8 rounds of each side, which count; the remaining rounds are watched now"
    assert path.read_bytes().startswith(killed)
    whole = Stub([rounds(0, 8), *rest.batches])
    _, once, _ = explained(monkeypatch, whole, None, plan)
    assert replace(resumed, seconds=once.seconds, identity=once.identity) == once


def test_a_process_too_short_to_count_is_compared_with_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with pytest.raises(KeyboardInterrupt):
        explained(monkeypatch, Stub([rounds(0, FEWEST - 1)], KeyboardInterrupt()), path)
    rest = Stub([rounds(1, FEWEST, ended=True)])
    _, resumed, _ = explained(monkeypatch, rest, path)
    assert resumed.runs == 1 and (rest.plans[0].first, rest.plans[0].seconds) == (1, PLAN.seconds)


@pytest.mark.parametrize(
    ("stop", "code", "why"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (SystemExit(143), 143, "interrupted"),
        (LaunchError("jax: it hangs"), 1, "jax: it hangs"),
        (SuiteError("no more"), 1, "no more"),
    ],
)
def test_what_stops_it_is_told_and_is_not_the_end(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    stop: BaseException,
    code: int,
    why: str,
) -> None:
    path, plan = tmp_path / "run.jsonl", replace(PLAN, generations=2)
    kept, stopped, ended = explained(
        monkeypatch, Stub([rounds(0, 7, True), rounds(1, 6), rounds(2, 3)], stop), path, plan
    )
    assert ended == code and stopped.runs == 2
    assert f"stopped early: {why}" in stopped.conditions
    told = (
        f"macro explain: {why}; explained from 13 rounds of 2 processes of each; kept in {path}, --resume continues\n"
    )
    assert capsys.readouterr().err == told
    assert measure.finished(kept.file.run) is None
    assert attribution.of(store.read(path)) == [stopped]
    _, whole, ended = explained(monkeypatch, Stub([rounds(3, 6, True)]), path, plan)
    assert ended == 0 and whole.runs == 3
    assert attribution.of(store.read(path)) == [whole], "the one that was stopped has been gone on with"
    assert measure.finished(store.read(path)) is not None


def test_where_nothing_counts_it_ends_as_it_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LaunchError, match="it hangs"):
        explained(monkeypatch, Stub([rounds(0, 5)], LaunchError("it hangs")), None)


def test_first_answers_come_at_each_doubling_and_not_before_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    every = rounds(0, 30)
    batches = [every[:10], every[10:12], *([x, y] for x, y in zip(every[12::2], every[13::2], strict=True))]
    lines: list[str] = []
    explained(monkeypatch, Stub([*batches, rounds(0, 30, True)[-2:]]), None, PLAN, lines)
    assert [line.partition(":")[0] for line in lines] == ["so far, 6 rounds", "so far, 12 rounds", "so far, 24 rounds"]
    _, whole, _ = explained(monkeypatch, Stub([every[:12], rounds(0, 6, True)[-2:]]), None)
    start, _, certain = lines[0].partition("; ")
    assert start == "so far, 6 rounds: numpy takes 4.00 ms more than jax [+4.00 ms, +4.00 ms]"
    said = next(sentence for sentence in whole.sentences if sentence.startswith("Certain by cause: "))
    assert f"C{certain[1:]}." == said, "the document's own words"


def test_first_answers_of_two_processes_are_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    plan = replace(PLAN, generations=2)
    explained(
        monkeypatch,
        Stub([rounds(0, 6, True), rounds(1, 5), rounds(1, 7)[10:], rounds(1, 7, True)[-2:]]),
        None,
        plan,
        lines,
    )
    assert [line.partition(":")[0] for line in lines] == ["so far, 6 rounds", "so far, 13 rounds"]


def test_a_full_disk_costs_what_is_not_in_the_file_yet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, write, count = tmp_path / "run.jsonl", store.RunFile._write, []

    def full(self: store.RunFile, record: object) -> None:
        count.append(record)
        if len(count) > 5:
            raise store.Unwritable("-o run.jsonl: No space left on device; 0 finished contests are kept: free space")
        write(self, record)

    monkeypatch.setattr(store.RunFile, "_write", full)
    kept, explanation, code = explained(monkeypatch, Stub([rounds(0, 7, True)]), path)
    assert (
        capsys.readouterr().err == "macro explain: -o run.jsonl: No space left on device: later rounds are not kept\n"
    )
    assert kept.full and code == 0 and explanation.runs == 1
    assert len(count) == 6, "it is not asked again"
    assert len(store.read(path).notes) == 4


def test_a_file_that_does_not_say_what_it_is_for_is_refused(tmp_path: Path) -> None:
    file = store.RunFile(tmp_path / "x.jsonl", replace(ENVIRONMENT, state={"plan": None}))
    with pytest.raises(UsageError, match=r"x.jsonl: written by `explain`, without rounds to resume; for `.+`: name"):
        measure.Kept(PLAN, both(), file, None)
    file.close()


def test_the_key_of_another_network_is_another() -> None:
    other = replace(PLAN, network=find("fcn-s"))
    assert resume.planned(PLAN, both(), False) != resume.planned(other, both(), False)


def test_an_answer_needs_no_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without perf spans alone are told from."""
    taken = [replace(one, watched=replace(one.watched, samples=[], switches=[])) for one in rounds(0, 6)]
    lines: list[str] = []
    _, whole, _ = explained(monkeypatch, Stub([taken, rounds(0, 6, True)[-2:]]), None, PLAN, lines)
    assert lines[0].startswith("so far, 6 rounds: numpy takes 4.00 ms more than jax [+4.00 ms, +4.00 ms]; ")
    assert {cell.column for cell in whole.cells} <= {"gemm", "optimizer", "softmax and loss"}
    assert document.explain(PLAN, both_with(taken), 0.0).gap == whole.gap


def both_with(taken: Sequence[Round]) -> list[Side]:
    sides = both()
    for one in taken:
        own = sides[one.side].processes
        own[:] = own or [Watched()]
        own[0].add(one.watched)
    return sides


@pytest.fixture
def sides() -> list[Side]:
    both = [side("numpy", ["fc1 wgrad", *FAST]), side("pytorch", FAST)]
    for one in both:
        one.entry.identity = {"kind": "hello", "seq": 1, "t_mono_ns": 5, "python": "3.11", "version": "2"}
        one.processes[0].calls.append((["fc1 update"], None))  # of a kind that nobody tells
    return both


def test_each_is_written_and_told_alone(sides: list[Side], tmp_path: Path) -> None:
    said: list[str] = []
    assert measure.keep_recordings(PLAN, sides, tmp_path / "run.jsonl", said.append)
    paths = [tmp_path / "run-a.kg", tmp_path / "run-b.kg"]
    assert said == [f"recording: {path}" for path in paths]
    for path, one in zip(paths, sides, strict=True):
        read = kg.read(path)
        assert "seq" not in read.program and read.processes[0].calls == one.processes[0].calls
        assert read.program["script"] == f"{PLAN.network.name} {one.entry.framework.name}"
        found = breakdown.taken_apart(read, 0.0, breakdown.Ceilings(None, None))
        assert sum(cell.a for cell in found.cells) + found.residual["a"] == pytest.approx(found.step["a"], rel=1e-3)
        assert {cell.phase for cell in found.cells if cell.path == "fc1"} >= {"backward", "update"}


def test_two_of_them_are_a_gap(sides: list[Side]) -> None:
    told = pair.explain(*(measure.recording_of(PLAN, one) for one in sides), 0.0)
    steps = [sum(x for p in one.processes for x in p.levels["P0"]) for one in sides]
    assert (told.gap > 0) == (steps[0] > steps[1])
    assert any(cell.row.startswith("fc1 ") for cell in told.cells)


def test_a_disk_that_is_full_is_said(sides: list[Side], tmp_path: Path) -> None:
    said: list[str] = []
    assert not measure.keep_recordings(PLAN, sides, tmp_path / "nowhere" / "run.jsonl", said.append)
    assert said[0].startswith("macro explain: -o ") and "No such file" in said[0]
