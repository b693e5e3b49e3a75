"""Spans of a framework's step and calls to be replayed; perf, which must answer; and the lines to the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.conftest import load
from tests.macro.agent.conftest import CORE

FILE = CORE / "recorder.py"


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    return load(FILE)


@pytest.fixture
def fifos(tmp_path: Path) -> list[str]:
    paths = [str(tmp_path / name) for name in ("control", "answer")]
    for path in paths:
        os.mkfifo(path)
    return paths


@pytest.fixture
def perf(fifos: list[str]) -> Iterator[list[bytes]]:
    """What a perf that answers was told."""
    told: list[bytes] = []
    control, answer = (os.open(path, os.O_RDWR) for path in fifos)

    def serve() -> None:
        while b"end" not in (word := os.read(control, 64)):
            told.append(word)
            os.write(answer, b"ack\n")

    thread = threading.Thread(target=serve)
    thread.start()
    yield told
    os.write(control, b"end")
    thread.join()
    os.close(control)
    os.close(answer)


def test_calls_are_made_as_they_are_or_timed(recorder: ModuleType) -> None:
    do, a = recorder.Steps(), np.ones((2, 3), np.float32)
    assert do(["r"], "gemm", sum, [1, 2]) == 3

    def run() -> None:
        do(["fc1 forward"], "gemm", np.add, a, a, out=a)
        do(["loss"], "softmax", time.sleep, 0.002)

    before = recorder.now()
    first, second = do.trace(run)
    after = recorder.now()
    assert (first["rows"], first["column"], first["name"]) == (["fc1 forward"], "gemm", "add")
    assert first["bytes"] == 3 * a.nbytes and "bytes" not in second
    assert before <= first["start"] <= first["end"] <= second["start"] < second["end"] <= after
    assert second["end"] - second["start"] >= 2_000_000
    assert do.spans is None and a[0, 0] == 2
    with pytest.raises(ZeroDivisionError):
        do.trace(lambda: 1 / 0)
    assert do.spans is None


def test_a_recorded_call_is_made_again(recorder: ModuleType) -> None:
    do, a = recorder.Steps(), np.ones(2, np.float32)
    ((rows, column, call),) = do.record(lambda: do(["u"], "update", np.add, a, np.float32(1), out=a))
    assert (rows, column, a[0]) == (["u"], "update", 2)
    call()
    assert a[0] == 3 and do.calls is None


def test_spans_of_another_clock_come_to_the_monotonic_one(recorder: ModuleType) -> None:
    spans = [
        {"name": "early", "start": 90, "end": 95},
        {"name": recorder.CALIBRATE, "start": 100.5, "end": 101.0},
        {"name": "late", "start": 200.5, "end": 300.5},
    ]
    found = recorder.calibrated(spans, 1_000_100.5)
    assert [(x["name"], x["start"], x["end"]) for x in found] == [
        ("early", 1_000_090, 1_000_095),
        ("late", 1_000_200, 1_000_300),
    ]
    assert spans[0]["start"] == 90


def test_steps_lie_between_two_marks(
    recorder: ModuleType, fifos: list[str], perf: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "stagger", lambda: None)  # beside which the thread that answers for perf would wait
    told = recorder.traced(SimpleNamespace(), None, lambda: time.sleep(0.1), 3, fifos, True)
    assert perf == [b"enable\n", b"disable\n"]
    assert not told["traces"] and told["spans"] == [] and len(told["steps"]) == 3
    for start, end, cpu, _ in told["steps"]:
        assert end - start >= 100_000_000 > cpu
    assert all(a[1] <= b[0] for a, b in zip(told["steps"], told["steps"][1:], strict=False))


def test_a_step_that_raises_leaves_perf_asleep(recorder: ModuleType, fifos: list[str], perf: list[bytes]) -> None:
    with pytest.raises(ZeroDivisionError):
        recorder.traced(SimpleNamespace(), None, lambda: 1 / 0, 3, fifos, True)
    assert perf == [b"enable\n", b"disable\n"]


def test_spans_only_where_they_are_asked_for(recorder: ModuleType) -> None:
    def trace(model: Any, run: Any) -> list[dict[str, int]]:
        run()
        return [{"start": 1}]

    adapter = SimpleNamespace(trace=trace)
    for asked in (True, False):
        told = recorder.traced(adapter, None, lambda: None, 1, None, asked)
        assert told["traces"] and len(told["spans"]) == asked


def test_perf_that_never_answers_is_an_error_and_no_hang(
    recorder: ModuleType, fifos: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "PATIENCE", 0.1)
    gate, told = recorder.Gate(fifos), []

    def say() -> None:
        try:
            gate.say(b"enable")
        except OSError as error:
            told.append(str(error))

    thread = threading.Thread(target=say, daemon=True)
    thread.start()
    thread.join(5)
    assert told == ["perf does not answer"]
    gate.close()


def test_without_perf_nothing_is_told(recorder: ModuleType) -> None:
    gate = recorder.Gate(None)
    gate.say(b"enable")
    gate.close()


def test_waiting_of_its_own_accord_is_told_apart_from_work(recorder: ModuleType) -> None:
    before = recorder.blocked()
    time.sleep(0.05)
    assert recorder.blocked(before) > 20_000_000


def test_where_the_system_tells_no_queueing_all_that_was_not_run_is_waiting(recorder: ModuleType) -> None:
    """Then its time is the wall's."""
    assert recorder.waited((0, 0, None, 0), (10, 4, None, 0)) == 6
    assert recorder.waited((0, 0, 1, 0), (10, 4, 3, 0)) == 0
    assert recorder.waited((0, 0, 1, 0), (10, 4, 3, 1)) == 4


@pytest.mark.parametrize(
    ("lines", "delay"), [(["5 7 1", "1 30 2"], 37), (["5 0 1"], 0), (["0 0 0"], None), ([""], None), ([], None)]
)
def test_what_its_threads_are_queued_for(
    recorder: ModuleType, tmp_path: Path, lines: list[str], delay: int | None
) -> None:
    for number, line in enumerate(lines):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "schedstat").write_text(line)
    assert recorder.run_delay(str(tmp_path)) == delay


def test_a_replay_times_each_call_and_says_what_it_was(recorder: ModuleType) -> None:
    made: list[str] = []
    calls = [(["a"], "gemm", lambda: made.append("a")), (["b"], "free", lambda: made.append("b"))]
    adapter = SimpleNamespace(record=lambda model, phase: calls)
    told = recorder.replayed(adapter, None, "step", 2, True)
    assert made == ["a", "b"] * 2
    assert told["calls"] == [[["a"], "gemm"], [["b"], "free"]]
    assert [len(row) for row in told["seconds"]] == [2, 2]
    assert recorder.replayed(SimpleNamespace(), None, "step", 2, True) == {"calls": [], "seconds": []}


def test_threads_count_that_work(recorder: ModuleType, tmp_path: Path) -> None:
    for task, ran in (("1", 1000), ("2", 900), ("3", 140), ("4", 5)):
        (tmp_path / task).mkdir()
        (tmp_path / task / "schedstat").write_text(f"{ran} 7 3\n")
    before = {"1": (100, 0), "2": (880, 0)}
    assert recorder.busy(before, str(tmp_path)) == 2  # the first and the third: the second has ended its work
    assert recorder.busy({}, str(tmp_path / "none")) == 1
    assert recorder.run_delay(str(tmp_path)) == 28


CODE = """
import os, sys
sys.path.insert(0, {core!r})
import loop
channel = loop.Channel(int(sys.argv[1]))
channel.send("begun")
os.closerange(3, 256)
{then}
channel.send("lost")
"""


@pytest.mark.parametrize("then", ["", "own = [open(sys.argv[2], 'a') for _ in range(99)]"], ids=["closed", "another's"])
def test_a_file_of_the_programs_own_is_never_written_to(then: str, tmp_path: Path) -> None:
    read, write = os.pipe()
    code = CODE.format(core=str(CORE), then=then)
    words = [sys.executable, "-c", code, str(write), str(tmp_path / "own.txt")]
    ran = subprocess.run(words, pass_fds=[write], capture_output=True, text=True, check=False)
    os.close(write)
    with os.fdopen(read) as stream:
        assert json.loads(stream.read())["kind"] == "begun"
    assert (
        ran.returncode == 1
        and ran.stderr == "the program closed files that it had not opened, so it cannot be watched\n"
    )
    assert not then or (tmp_path / "own.txt").read_text() == ""
