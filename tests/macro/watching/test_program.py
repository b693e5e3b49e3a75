"""A user's script as the driver sees it: what is asked of it, in which order, and how each of its ends is told."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from kernels.errors import LaunchError, SuiteError, Unavailable, UsageError
from macro.timing.entry import FEWEST
from macro.watching import ends, kg, load, perf, program, rounds, scripts
from macro.watching.ends import Ended
from macro.watching.load import Load
from macro.watching.program import ScriptObserver
from macro.watching.recording import Recording, Watched
from macro.watching.script import Script
from macro.watching.scripts import watch
from micro.worker.client import Died

BEGUN = {"kind": "begun"}
STEP = 10_000_000  # nanoseconds
HELLO = {"kind": "hello", "step": "with step()", "framework": "python", "version": "3.12", "threads": 1}
SCRIPT = Script(Path("/x/train.py"), python=Path("python"), seconds=0.0, patience=0.1)


class Program:
    """A script's process: these messages, then answers; after `most` blocks `last`; page faults, PLAIN unless given."""

    def __init__(self, *messages: dict[str, Any], most: int = 10**9, last: object = None, faults: Sequence[int] = ()):
        self.messages, self.most, self.last, self.faults = list(messages), most, last, list(faults)
        self.asked: list[Mapping[str, Any]] = []
        self.closed, self.now, self.pid, self.load = 0, 0, os.getpid(), [8_000_000, 2_000_000]

    def send(self, request: Mapping[str, Any]) -> None:
        self.asked.append(request)
        if request["do"] == "heap":
            self.messages.append({"kind": "heap", "done": False})
        if request["do"] == "try":
            self.messages.append({"kind": "tried", "reason": "no optimizer"})
        if request["do"] == "block":
            self.messages.append(self._block(request["count"]))

    def _block(self, count: int) -> dict[str, Any]:
        self.most -= 1
        steps = []
        for _ in range(count):
            steps.append([self.now, self.now + STEP, STEP, 0, self.faults.pop(0) if self.faults else 0])
            self.now += STEP
        return {
            "kind": "block",
            "steps": steps,
            "blocked": 0,
            "load": self.load,
            "traced": None,
            "peak": 1,
            "lines": [],
            "denormals": {},
            "collections": [0, 0],
        }

    def poll(self, patience: float) -> dict[str, Any] | None:
        if self.most < 0 and isinstance(self.last, BaseException):
            raise self.last
        if self.most < 0 and isinstance(self.last, dict):
            return self.last
        return self.messages.pop(0) if self.messages else None

    def wait(self) -> bool:
        return True

    def close(self) -> None:
        self.closed += 1


class Sampler:
    """Sees nothing, and takes half a core; `requests` of the script when it was attached."""

    fifos = ("control", "answer")

    def __init__(self, fake: Program) -> None:
        self.fake, self.requests = fake, list[object]()

    def attached(self) -> None:
        self.requests = list(self.fake.asked)

    def renew(self) -> None:
        pass

    def seconds(self) -> float:
        return time.monotonic() / 2

    def read(self) -> perf.Seen:
        return perf.Seen([], [], [])

    def close(self) -> None:
        pass


Watch: TypeAlias = "Callable[..., tuple[list[Recording], list[str]]]"


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Watch:
    """`watched(fake)`: what `watch` returns, and has said."""

    def run(
        fake: Program,
        script: Script = SCRIPT,
        missing: str | None = None,
        keep: Callable[[Sequence[Recording]], None] = lambda kept: None,
    ) -> tuple[list[Recording], list[str]]:
        said: list[str] = []
        if missing is None and fake.messages[:1] != [BEGUN]:
            fake.messages.insert(0, BEGUN)  # read before perf is attached
        monkeypatch.setattr(scripts, "Program", lambda *of: fake)
        monkeypatch.setattr(perf, "missing", lambda: missing)
        monkeypatch.setattr(rounds, "Sampler", lambda pid, folder: Sampler(fake))
        return watch([script], tmp_path, (io.BytesIO(), io.BytesIO()), said.append, keep), said

    return run


def ended(how: str, reason: str = "", steps: int = 0) -> dict[str, Any]:
    return {"kind": "ended", "how": how, "reason": reason, "code": 1, "steps": steps}


def test_a_script_is_watched_and_let_go(watched: Watch) -> None:
    fake = Program(HELLO)
    (recording,), said = watched(fake)
    (process,) = recording.processes
    assert said[0] == "steps end with with step()" and recording.ended == ""
    assert recording.program["heap"] == "default" and recording.started is None  # it could not be told to keep it
    assert len(process.levels["P0"]) == len(process.levels["P3"]) == FEWEST
    assert set(process.levels["P0"]) == {STEP * 1e-9}
    assert fake.asked[-1] == {"do": "bye"} and fake.closed == 1


@pytest.mark.parametrize(
    ("messages", "step", "why"),
    [
        ((), None, "no optimizer has stepped, nor was torch imported: mark steps by"),
        (({"kind": "torch"},), None, "no optimizer has stepped and no module was called: mark steps by"),
        (({"kind": "torch"}, {"kind": "held"}), None, "the script's own torch.profiler.profile is active"),
        ((), "lib:go", "--step lib:go was not called often enough; --wait 5m waits longer"),
    ],
)
def test_a_script_without_a_step_is_told_what_to_do(
    messages: Sequence[dict[str, Any]], step: str | None, why: str, watched: Watch
) -> None:
    fake = Program(*messages)
    script = Script(Path("/x/train.py"), step=step, seconds=0.0, patience=0.1)
    with pytest.raises(UsageError) as told:
        watched(fake, script)
    assert str(told.value).startswith(f"train.py: no step within 0 s: {why}") and fake.closed


@pytest.mark.parametrize(
    ("messages", "kind", "why"),
    [
        ([ended("failed", "train.py:1: E: x")], LaunchError, "train.py: failed before a step was watched: train.py"),
        (
            [ended("failed", "ModuleNotFoundError: y")],
            LaunchError,
            "y (--python PATH: an interpreter that has the module",
        ),
        ([ended("ended")], LaunchError, "train.py: ended without a step that could be detected: mark steps by"),
        (
            [ended("ended", "it exited with 2")],
            LaunchError,
            "was watched: it exited with 2 (the script's arguments follow",
        ),
        ([ended("ended", steps=5)], LaunchError, "(5 steps): let the script run longer, e.g. more epochs"),
        ([HELLO, ended("ended")], LaunchError, "train.py: ended before enough steps were watched: let the script run"),
        ([ended("usage", "--step x:y: x has no y")], UsageError, "--step x:y: x has no y"),
        ([HELLO, ended("profiler", "its own profiler")], LaunchError, "train.py: cannot be watched: its own profiler"),
        ([HELLO, ended("unseen", "OSError: no perf")], LaunchError, "train.py: cannot be watched: OSError: no perf"),
    ],
)
def test_each_early_end_is_a_line(
    messages: Sequence[dict[str, Any]], kind: type[SuiteError], why: str, watched: Watch
) -> None:
    fake = Program(BEGUN, *messages, most=0, last=messages[-1])
    with pytest.raises(kind) as told:
        watched(fake)
    assert why in str(told.value) and "\n" not in str(told.value) and fake.closed


def test_an_interpreter_that_is_none_is_told(watched: Watch) -> None:
    fake = Program(most=-1, last=Died("ends its process with exit code 0"))
    with pytest.raises(UsageError, match=r"--python python: not a Python 3\.9 or later that runs scripts: ends its"):
        watched(fake)


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (ended("ended"), "the script ended by itself"),
        (ended("failed", "E: x"), "the script failed: E: x"),
        (Died("its process was killed by SIGKILL"), "the script failed: its process was killed by SIGKILL"),
        (ended("profiler", "its own profiler starts"), "its own profiler starts"),
        (ended("unseen", "OSError: x"), "watching the script failed: OSError: x"),
    ],
)
def test_what_was_seen_until_a_late_end_counts(last: object, words: str, watched: Watch) -> None:
    (recording,), _ = watched(Program(HELLO, most=18, last=last))
    assert recording.ended == words and recording.processes[0].levels["P3"]


def test_without_perf_and_pytorch_nothing_can_be_told(watched: Watch) -> None:
    with pytest.raises(Unavailable, match=r"train\.py: a script without PyTorch requires perf: no perf"):
        watched(Program(HELLO), missing="no perf")


def test_an_interrupt_keeps_rounds_so_far(watched: Watch) -> None:
    kept: list[Sequence[Recording]] = []
    with pytest.raises(KeyboardInterrupt):
        watched(Program(HELLO, most=18, last=KeyboardInterrupt()), keep=kept.append)
    ((recording,),) = kept
    assert recording.ended == "interrupted"
    assert 0 < len(recording.processes[-1].levels["P3"]) < FEWEST


def test_an_interrupt_before_a_round_keeps_nothing(watched: Watch) -> None:
    kept: list[Sequence[Recording]] = []
    with pytest.raises(KeyboardInterrupt):
        watched(Program(HELLO, most=1, last=KeyboardInterrupt()), keep=kept.append)
    assert not kept


def test_perf_is_attached_before_the_script_begins(watched: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    samplers: list[Sampler] = []
    plain = Sampler.attached
    monkeypatch.setattr(Sampler, "attached", lambda self: (samplers.append(self), plain(self)))
    fake = Program(HELLO)
    watched(fake)
    assert [one.requests for one in samplers] == [[]] and fake.asked[0] == {"do": "begin"}


class Clock:
    """Stands for the module `time`: a millisecond passes with each reading."""

    now = 0.0

    def monotonic(self) -> float:
        self.now += 1e-3
        return self.now


def test_load_and_perfs_processor_time_are_recorded(
    watched: Watch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    worked, clock = iter(range(10**6)), Clock()
    monkeypatch.setattr(load, "others", lambda: float(next(worked)))
    monkeypatch.setattr(program, "time", clock)
    monkeypatch.setattr(Sampler, "seconds", lambda self: clock.now / 2)
    (recording,), _ = watched(Program(HELLO))
    assert recording.program["perf"] == pytest.approx(0.5, rel=0.01)
    path = tmp_path / "x.kg"
    kg.write(recording, path)
    (process,) = kg.read(path).processes
    assert [x[:3] for x in process.load] == [(0.008, 0.002, 1.0)] * FEWEST
    assert load.company(process.load) is None and load.company([Load(0.9, 0.1, 0.5, 2.0)]) == 0.25


@pytest.mark.parametrize(("faults", "taken"), [([], 1), ([0, 9999], 2), ([9999] * 99, ScriptObserver.tries)])
def test_a_block_in_which_memory_grew_is_taken_again(faults: list[int], taken: int) -> None:
    fake: Any = Program(faults=faults)
    look = ScriptObserver(SCRIPT, fake, lambda text: None)
    look.recording.program["heap"] = "keep"
    look.seen, look.skip = Watched(), 0
    look.undisturbed(2)
    assert len(fake.asked) == taken


def test_an_interrupt_while_rounds_are_read_loses_one_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    fake: Any = Program()
    look = ScriptObserver(SCRIPT, fake, lambda text: None)
    look.unread, add, interrupts = [Watched(rounds=[i]) for i in range(3)], Watched.add, [KeyboardInterrupt()]

    def interrupted(watched: Watched, other: Watched) -> None:
        if interrupts:
            raise interrupts.pop()
        add(watched, other)

    monkeypatch.setattr(Watched, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        look.read()
    look.read()
    assert look.watched.rounds == [1, 2]


def test_an_answer_of_another_kind_is_an_error() -> None:
    fake: Any = Program({"kind": "heap", "done": True})
    with pytest.raises(LaunchError, match=r"train\.py: sent 'heap' where 'block' was expected"):
        ScriptObserver(SCRIPT, fake, lambda text: None).block(1)


def test_a_script_that_stops_stepping_has_ended() -> None:
    fake: Any = Program(most=-1)
    with pytest.raises(Ended, match="its steps did not end within"):
        ScriptObserver(SCRIPT, fake, lambda text: None)._ask("block", 0.0, do="nothing")


def test_the_whole_time_is_said_with_its_parts() -> None:
    assert ends.explaining(1, 1, 40.0, 1.0) == (
        "about 54 s in all: 40 s of watching, 6 s until memory use is stable, 8 s for operations by themselves and "
        "ceilings"
    )
    assert ends.explaining(2, 3, 40.0, 1.0).startswith("about 179 s in all: 120 s of watching, 36 s until")
    assert ends.explaining(1, 1, 20.0, 3.0) == (
        "about 57 s in all: 20 s of watching, 13 s until memory use is stable, 24 s for operations by themselves and "
        "ceilings (this machine is busy: work takes 3.0 times as long as on an idle one)"
    )


def test_a_short_script_is_watched_once_more_from_its_first_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fakes, given, heard = (
        [Program(BEGUN, HELLO, most=x, last=ended("ended", steps=30)) for x in (3, 9)],
        list[Script](),
        list[str](),
    )
    monkeypatch.setattr(scripts, "Program", lambda script, *_: (given.append(script), fakes[len(given) - 1])[1])
    monkeypatch.setattr(perf, "missing", lambda: "")
    monkeypatch.setattr(rounds, "Sampler", lambda pid, folder: Sampler(fakes[len(given) - 1]))
    (recording,) = watch([SCRIPT], tmp_path, (io.BytesIO(), io.BytesIO()), heard.append, lambda _: None)
    assert given[0].expected == 0 and given[1].expected >= 30
    assert any("is run once more" in text for text in heard)
    assert len(recording.processes[0].levels["P3"]) == 2


def test_long_steps_take_longer_than_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "busy", lambda: 1.0)
    assert ends.settled(12.0, 1, 40.0, 0.1, 1.0) == "memory use is stable after 12 s: about 48 s more"
    assert ends.settled(12.0, 1, 40.0, 10.0, 2.0).endswith("about 274 s more")
    heard = list[str]()
    for step, count in ((0.002, 51), (1.5, 1)):
        ends.report_slow(step, count, 20.0, heard.append, 20, FEWEST)
    assert heard == ["a step takes 1.50 s: about 77 s more, 30 s of it until memory use is stable"]


def test_work_takes_longer_beside_other_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    for text, wanted, times in (("1000 2000 7\n", 9.0, 4.0), ("1000 0 7\n", 0.5, 1.0), ("", 9.0, 1.0)):
        monkeypatch.setattr(os, "getloadavg", lambda wanted=wanted: (wanted, 0.0, 0.0))
        monkeypatch.setattr(Path, "read_text", lambda path, text=text: text)
        assert load.busy() == times
    assert load.slowdown([Load(1.0, 3.0, 9.0)]) == 4.0 and load.slowdown([]) == 1.0


@pytest.mark.parametrize(
    ("blocks", "share"),
    [
        ([], None),
        ([Load(0.0, 0.0, 0.0)], 0.0),
        ([Load(0.1, 0.0, 0.2)], 0.0),  # others had a core of their own
        ([Load(0.1, 0.1, 0.0)], 0.0),  # queued behind its own threads or children
        ([Load(0.1, 0.1, -0.01)], 0.0),
        ([Load(0.1, 0.1, 0.2)], 0.5),
        ([Load(0.1, 0.1, 0.05)], 0.25),
        ([Load(0.1, 0.1, 0.2), Load(0.2, 0.0, 0.0)], 0.25),
    ],
)
def test_others_take_what_threads_were_queued_for(blocks: list[Load], share: float | None) -> None:
    assert load.taken(blocks) == (share if share is None else pytest.approx(share))


def test_time_of_descendants_is_not_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    times, children = {1: 5.0, 2: 2.0, 3: 1.0}, {1: [2], 2: [3], 3: list[int]()}
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(load, "processor_time", times.__getitem__)
    monkeypatch.setattr(load, "children", children.__getitem__)
    monkeypatch.setattr(load.Counters, "now", lambda: load.Counters(busy=30.0, allowed=10.0))
    assert load.others() == 2.0


def test_a_process_that_has_ended_has_no_time() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert process.pid in load.children(os.getpid())
        process.communicate(b"\n")
    assert load.processor_time(process.pid) == 0.0
    assert load.processor_time(os.getpid()) > 0.0
