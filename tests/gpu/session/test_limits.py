"""A step that hangs, fails or writes too much costs itself; a killed session leaves whole lines and no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.session import processes, steps
from tests.gpu.session.conftest import Plan, fake, log
from tests.gpu.session.processes import ROOT
from tests.gpu.session.steps import Step
from tests.processes import MARK, gone, interruptible, left, marked

HANGS = """
import signal, subprocess, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("begun", child.pid)
time.sleep(600)
"""
ENDS_WHEN_INTERRUPTED = """
import subprocess, sys, time
deaf = "import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf])
time.sleep(0.5)
print("begun", child.pid)
try:
    time.sleep(600)
except KeyboardInterrupt:
    print("what I have")
"""
LARGEST = 16 << 20  # bytes of a file that comes back


def started(out: Path) -> int:
    """Return the process that a step started."""
    (pid,) = (int(line.split()[1]) for line in log(out).splitlines() if line.startswith("begun"))
    return pid


@pytest.mark.slow
def test_a_step_that_hangs_is_ended_and_the_later_ones_run(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """With what it started; neither hears a signal."""
    modules("hangs", HANGS)
    modules("hello", "print('hello')")
    plan(Step("first", ("hello",), 10.0), Step("stuck", ("hangs",), 2.5), Step("then", ("hello",), 10.0))
    assert fake("--seconds", "30", "--out", str(tmp_path)) == 1
    lines = log(tmp_path).splitlines()
    assert gone(started(tmp_path)) and lines.count("hello") == 2
    codes = [line.partition(" after ")[0] for line in lines if "exit code" in line]
    assert codes == [f"gpu: {name}: exit code {code}" for name, code in (("first", 0), ("stuck", 124), ("then", 0))]
    assert "not well: stuck of part 1" in capsys.readouterr().out


@pytest.mark.slow
def test_a_step_is_interrupted_before_it_is_killed(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where our caller ignores interrupts."""
    modules("ends", ENDS_WHEN_INTERRUPTED)
    plan(Step("long", ("ends",), 4.0))
    monkeypatch.setattr(steps, "GRACE", 5.0)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert fake("--seconds", "20", "--out", str(tmp_path)) == 1
    finally:
        signal.signal(signal.SIGINT, before)
    assert "what I have" in log(tmp_path)
    assert gone(started(tmp_path))  # what it left behind


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
    assert steps._wait(stuck, 7.0) == 124
    assert waited == [7.0, steps.GRACE, steps.GRACE / 2, steps.GRACE]
    assert sent == [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL]


def test_a_step_that_fails_costs_the_exit_code_alone(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None]
) -> None:
    modules("fails", "import sys; sys.stderr.write('it broke\\n'); sys.exit(5)")
    modules("hello", "print('hello')")
    plan(Step("bad", ("fails",), 10.0), Step("good", ("hello",), 10.0))
    assert fake("--seconds", "20", "--out", str(tmp_path)) == 1
    text = log(tmp_path)
    assert "hello\n" in text and "it broke" in text and "bad: exit code 5" in text


def test_a_log_stays_below_its_size(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a step that fills it the first words are kept, and what comes after it is there."""
    assert steps.ROOM < LARGEST
    monkeypatch.setattr(steps, "ROOM", 100_000)
    modules("talks", "print('first'); print('x' * 1_000_000)")
    modules("hello", "print('hello')")
    plan(Step("huge", ("talks",), 10.0), Step("good", ("hello",), 10.0))
    assert fake("--seconds", "40", "--out", str(tmp_path)) == 0
    text = log(tmp_path)
    assert len(text) < 100_000 and "first\n" in text and "is left out" in text
    assert "\nhello\n" in text and "good: exit code 0" in text


def test_a_process_ends_with_its_parent() -> None:
    """Also a process whose parent has gone before it could ask for that."""
    code = f"from tests.gpu.session import processes; processes.die_with({os.getpid()}); print('here')"
    for pid, expected in ((os.getpid(), (0, "here\n")), (1, (1, ""))):
        words = [sys.executable, "-c", code.replace(str(os.getpid()), str(pid))]
        ran = subprocess.run(words, cwd=processes.ROOT, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout) == expected
    assert (processes.end(-9), processes.end(3)) == ("killed by SIGKILL", "exit code 3")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_what_it_started_ends_with_it(
    how: signal.Signals, tmp_path: Path, modules: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, str(tmp_path))
    modules("waits", "import time; print('begun'); time.sleep(600)")
    out = str(tmp_path / "out")
    program = (
        "from tests.gpu.session import __main__ as gpu, steps\n"
        "steps.steps = lambda *given: (steps.Step('x', ('waits',), 99.0),)\n"
        f"raise SystemExit(gpu.main(['--fake', '--part', '1', '--out', {out!r}]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,
    )
    begun = tmp_path / "out" / "gpu-1.txt"
    while process.poll() is None and not (begun.exists() and "begun" in begun.read_text()):
        time.sleep(0.01)
    assert len(marked(tmp_path)) == 2
    process.send_signal(how)
    _, err = process.communicate()
    if how == signal.SIGINT:
        assert process.returncode == 130 and "interrupted" in err and "Traceback" not in err
    assert not left(tmp_path)
