"""A step that hangs, fails or says too much costs itself; a visit in too little time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from micro.visit import steps as visit_steps
from micro.visit.steps import Step
from tests.builds import share
from tests.micro.visit.conftest import ROOT, Plan, files, made, whole, words
from tests.processes import MARK, gone, left

HANGS = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf])
print("begun", child.pid)
time.sleep(600)
"""
ENDS_WHEN_TOLD = """
import signal, subprocess, sys, time
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf])
time.sleep(0.5)
signal.signal(signal.SIGTERM, lambda *given: (print("what I have"), sys.exit(3)))
print("begun", child.pid)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_step_that_hangs_is_ended_and_the_later_ones_run(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """With what it started, which hears no SIGTERM."""
    modules("hangs", HANGS)
    modules("hello", "print('hello')")
    plan(
        Step("first", ("hello",), 10.0), Step("stuck", ("hangs",), 2.5, signal.SIGTERM), Step("then", ("hello",), 10.0)
    )
    assert made("--seconds", "30", "--out", str(tmp_path)) == 1
    told = words(tmp_path).splitlines()
    (begun,) = (line.split() for line in told if line.startswith("begun"))
    assert gone(int(begun[1])) and told.count("hello") == 2
    codes = [line.partition(" after ")[0] for line in told if "exit code" in line]
    assert codes == [f"gpu: {name}: exit code {code}" for name, code in (("first", 0), ("stuck", 124), ("then", 0))]
    said = capsys.readouterr().out
    assert "gpu: stuck: exit code 124" in said and "not well: stuck of part 1" in said


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_step_is_told_to_end_before_it_is_made_to(
    stop: signal.Signals,
    tmp_path: Path,
    plan: Plan,
    modules: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its own signal, also where our caller ignores that one."""
    modules("ends", ENDS_WHEN_TOLD.replace("SIGTERM", stop.name))
    plan(Step("long", ("ends",), 4.0, stop))
    monkeypatch.setattr(visit_steps, "GRACE", 5.0)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert made("--seconds", "20", "--out", str(tmp_path)) == 1
    finally:
        signal.signal(signal.SIGINT, before)
    (begun,) = (line.split() for line in words(tmp_path).splitlines() if line.startswith("begun"))
    assert "what I have" in words(tmp_path)
    assert gone(int(begun[1]))  # what it left behind


def test_a_step_has_its_limit_then_a_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    sent: list[int] = []

    class Stuck:
        pid = 1 << 30  # nobody's

        def wait(self, patience: float) -> int:
            waited.append(patience)
            raise subprocess.TimeoutExpired("x", patience)

        def poll(self) -> None:
            return None

    monkeypatch.setattr(os, "killpg", lambda pid, number: sent.append(number))
    stuck: Any = Stuck()
    assert visit_steps._ended(stuck, 7.0, signal.SIGINT) == 124
    assert waited == [7.0, visit_steps.GRACE, visit_steps.GRACE / 2, visit_steps.GRACE]
    assert sent == [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL]


def test_a_step_that_fails_costs_the_exit_code_alone(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None]
) -> None:
    modules("fails", "import sys; sys.stderr.write('it broke\\n'); sys.exit(5)")
    modules("hello", "print('hello')")
    plan(Step("bad", ("fails",), 10.0), Step("good", ("hello",), 10.0))
    assert made("--seconds", "20", "--out", str(tmp_path)) == 1
    told = words(tmp_path)
    assert "hello\n" in told and "it broke" in told and "bad: exit code 5" in told


def test_a_log_stays_below_its_size(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a step that fills it the first words are kept, and what comes after it is told."""
    monkeypatch.setattr(visit_steps, "ROOM", 100_000)
    modules("talks", "print('first'); print('x' * 1_000_000)")
    modules("hello", "print('hello')")
    plan(Step("huge", ("talks",), 10.0), Step("good", ("hello",), 10.0))
    assert made("--seconds", "40", "--out", str(tmp_path)) == 0
    told = words(tmp_path)
    assert len(told) < 100_000 and "first\n" in told and "is left out" in told
    assert "\nhello\n" in told and "good: exit code 0" in told


def test_probes_know_when_to_stop(tmp_path: Path, plan: Plan, modules: Callable[[str, str], None]) -> None:
    """Earlier than they are made to."""
    modules("says", "import sys; print('said', *sys.argv[1:])")
    plan(Step("probes", ("says", "x"), 10.0, timed=True), Step("other", ("says", "y"), 10.0))
    assert made("--seconds", "40", "--out", str(tmp_path)) == 0
    first, second = (line.split() for line in words(tmp_path).splitlines() if line.startswith("said"))
    assert first[1:3] == ["x", "--seconds"] and 0 < float(first[3]) <= 10
    assert second == ["said", "y"]


MOST = 16 << 20  # bytes of a file that comes back


@pytest.mark.slow
def test_a_visit_in_too_little_time(tmp_path: Path) -> None:
    """Of all parts: what was begun is ended, and told."""
    out = tmp_path / "out"
    environment = os.environ | {"OUT": str(out), "KERNELGAP_STATE": str(share(tmp_path / "state")), MARK: str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-m", "micro.gpu", "--fake", "--seconds", "12"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode in (0, 1) and "Traceback" not in ran.stderr, ran.stderr
    found = {x.name: x.stat().st_size for x in out.iterdir()}
    assert "gpu-1.txt" in found and set(found) <= set().union(*(files(part, out, False) for part in visit_steps.PARTS))
    assert max(found.values()) < MOST
    assert "hold: exit code " in ran.stdout and "part 3 is left" in ran.stdout
    whole(out)
    assert not left(tmp_path)
