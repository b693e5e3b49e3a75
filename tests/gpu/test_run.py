"""The visit to a GPU as a whole, on the fake device: its files, its limits, and what a kill leaves."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from reports import store
from tests.gpu import run
from tests.gpu.run import Step, steps
from tests.micro.test_all import PROGRAM
from tests.processes import MARK, marked

ROOT = Path(__file__).parents[2]
SIX = {"machine.json", "tests.txt", "report.txt", "log.txt", "run.jsonl", "checklist.jsonl"}
MOST = 16 << 20  # bytes of a file that comes back

Plan = Callable[..., None]


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """`modules(name, text)`: a module that a step can run."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{ROOT}")
    return lambda name, text: (folder / f"{name}.py").write_text(text) and None


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    """`plan(steps)`: in the place of those of a visit."""
    monkeypatch.setattr(run, "GRACE", 0.5)
    return lambda *made: monkeypatch.setattr(run, "steps", lambda out, seconds, here: made)


def alive(pid: int) -> bool:
    """Whether it still runs after five seconds; one that nobody waits for may stay as a name."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            return False
        time.sleep(0.02)
    return True


def words(out: Path, name: str) -> str:
    return (out / name).read_text()


# What it asks, and where it writes


@pytest.mark.parametrize("here", [True, False])
def test_six_files_at_most(tmp_path: Path, here: bool) -> None:
    found = steps(tmp_path, 520, here)
    files = {step.output for step in found} | {"log.txt"}
    for step in found:
        for option, value in zip(step.command, step.command[1:], strict=False):
            if option == "-o":
                assert Path(value).parent == tmp_path
                files.add(Path(value).name)
    assert files == SIX


@pytest.mark.parametrize("here", [True, False])
def test_the_device_is_the_one_that_is_here(tmp_path: Path, here: bool) -> None:
    told = [" ".join(step.command) for step in steps(tmp_path, 520, here)]
    assert any("--device cuda:0 " in x for x in told) == here
    assert any("--device fake:cuda --small" in x for x in told) != here
    assert any(x.endswith(" --fake") for x in told) != here


def test_the_benchmarks_go_on_where_they_were(tmp_path: Path) -> None:
    (found,) = (step for step in steps(tmp_path, 500, True) if step.name == "benchmarks")
    assert found.command[-1] == "--resume"
    assert found.command[found.command.index("--budget") + 1] == "100s"


@pytest.mark.parametrize(
    ("out", "argument", "expected"),
    [("told", None, "told"), ("told", "other", "other"), ("", None, "gpu-out"), (None, None, "gpu-out")],
)
def test_where_the_files_go(
    out: str | None, argument: str | None, expected: str, tmp_path: Path, plan: Plan,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    if out is None:
        monkeypatch.delenv("OUT", raising=False)
    else:
        monkeypatch.setenv("OUT", str(tmp_path / out) if out else "")
    plan(Step("hello", ("this",), "tests.txt", 0.5))
    assert run.main(["--fake", "--seconds", "20", *(["--out", argument] if argument else [])]) == 0
    assert [x.name for x in tmp_path.iterdir()] == [expected]
    assert "Beautiful is better than ugly" in words(tmp_path / expected, "tests.txt")


# Limits

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


def test_a_step_that_hangs_is_ended_and_the_later_ones_run(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """With what it started, which hears no SIGTERM."""
    modules("hangs", HANGS)
    modules("hello", "print('hello')")
    plan(
        Step("first", ("hello",), "machine.json", 0.5), Step("stuck", ("hangs",), "tests.txt", 0.05),
        Step("then", ("hello",), "report.txt", 0.9), Step("last", ("hello",), "log.txt", 1.0),
    )  # fmt: skip
    assert run.main(["--fake", "--seconds", "30", "--out", str(tmp_path / "out")]) == 1
    begun, pid = words(tmp_path / "out", "tests.txt").split()
    assert begun == "begun" and not alive(int(pid))
    assert words(tmp_path / "out", "report.txt") == words(tmp_path / "out", "machine.json") == "hello\n"
    told = words(tmp_path / "out", "log.txt").splitlines()
    codes = [line.partition(" after ")[0] for line in told if "exit code" in line]
    ended = (("first", 0), ("stuck", 124), ("then", 0), ("last", 0))
    assert codes == [f"gpu: {name}: exit code {code}" for name, code in ended]
    assert "hello" in told
    assert "gpu: stuck: exit code 124" in capsys.readouterr().out


def test_a_step_is_told_to_end_before_it_is_made_to(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "GRACE", 20.0)
    modules("ends", ENDS_WHEN_TOLD)
    plan(Step("long", ("ends",), "tests.txt", 0.1))
    assert run.main(["--fake", "--seconds", "15", "--out", str(tmp_path)]) == 1
    begun, pid, *rest = words(tmp_path, "tests.txt").split()
    assert (begun, " ".join(rest)) == ("begun", "what I have")
    assert not alive(int(pid))  # what it left behind


def test_a_step_has_its_limit_then_a_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    sent: list[int] = []

    class Stuck:
        pid = 1 << 30  # nobody's

        def wait(self, patience: float) -> int:
            waited.append(patience)
            raise subprocess.TimeoutExpired("x", patience)

    monkeypatch.setattr(os, "killpg", lambda pid, number: sent.append(number))
    stuck: Any = Stuck()
    assert run.ended(stuck, 7.0) == 124
    assert waited == [7.0, run.GRACE, 10.0]
    assert sent == [signal.SIGTERM, signal.SIGKILL, signal.SIGKILL]


def test_a_step_that_fails_costs_the_exit_code_alone(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None]
) -> None:
    modules("fails", "import sys; sys.stderr.write('it broke\\n'); sys.exit(5)")
    modules("hello", "print('hello')")
    plan(Step("bad", ("fails",), "tests.txt", 0.5), Step("good", ("hello",), "report.txt", 0.5))
    assert run.main(["--fake", "--seconds", "20", "--out", str(tmp_path)]) == 1
    assert words(tmp_path, "report.txt") == "hello\n"
    assert "it broke" in words(tmp_path, "log.txt") and "bad: exit code 5" in words(tmp_path, "log.txt")


def test_the_checklist_knows_when_to_stop(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None]
) -> None:
    """Earlier than it is made to."""
    modules("says", "import sys; print(*sys.argv[1:])")
    plan(Step("checklist", ("says", "x"), "tests.txt", 0.5), Step("other", ("says", "y"), "report.txt", 0.5))
    assert run.main(["--fake", "--seconds", "40", "--out", str(tmp_path)]) == 0
    word, option, seconds = words(tmp_path, "tests.txt").split()
    assert (word, option) == ("x", "--seconds") and 0 < float(seconds) < 20
    assert words(tmp_path, "report.txt") == "y\n"


def test_a_second_visit_leaves_one_document(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None]
) -> None:
    """And adds to what is read line by line."""
    modules("document", "print('{\"a\": 1}')")
    plan(Step("machine", ("document",), "machine.json", 0.5), Step("tests", ("document",), "tests.txt", 0.5))
    for _ in range(2):
        assert run.main(["--fake", "--seconds", "20", "--out", str(tmp_path)]) == 0
    assert json.loads(words(tmp_path, "machine.json")) == {"a": 1}
    assert len(words(tmp_path, "tests.txt").splitlines()) == 2


# The real steps, in too little time


def whole(out: Path) -> None:
    """Every line of every file of records is one."""
    for path in out.glob("*.jsonl"):
        text = path.read_bytes()
        assert text.endswith(b"\n") or not text, path
        for line in text.splitlines():
            json.loads(line)


def test_a_visit_leaves_six_files(tmp_path: Path) -> None:
    """In too little time for the tests, which are ended."""
    out = tmp_path / "out"
    environment = os.environ | {
        "OUT": str(out),
        "KERNELGAP_STATE": str(tmp_path / "state"),
        MARK: str(tmp_path),
    }
    ran = subprocess.run(
        [sys.executable, "-m", "tests.gpu.run", "--fake", "--seconds", "12"], cwd=ROOT, env=environment,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode in (0, 1) and "Traceback" not in ran.stderr, ran.stderr
    files = {x.name: x.stat().st_size for x in out.iterdir()}
    assert set(files) <= SIX and {"machine.json", "report.txt", "log.txt"} <= set(files)
    assert max(files.values()) < MOST
    told = words(out, "log.txt")
    assert [
        told.count(f"gpu: {name}: exit code ") for name in ("machine", "tests", "benchmarks", "checklist")
    ] == [1] * 4
    if "machine: exit code 0" in told:  # a busy machine may have had no time for it
        json.loads(words(out, "machine.json"))
    whole(out)
    assert not marked(tmp_path)


# Killed

VISIT = """
import sys
from pathlib import Path
from tests.gpu import run
from tests.gpu.run import Step


def few(out, seconds, here):
    file = str(out / "run.jsonl")
    words = ("few", "all", "--device", "fake:cuda", "--small", "--budget", "1s", "-o", file, "--resume")
    asked = ("micro.probes", "-o", str(out / "checklist.jsonl"), "--fake", "--only", "versions")
    return Step("benchmarks", words, "report.txt", 0.9), Step("checklist", asked, "log.txt", 1.0)


run.steps = few
sys.exit(run.main(["--fake", "--seconds", "100"]))
"""


@pytest.fixture
def visit(
    tmp_path: Path, modules: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """`visit()`: a visit in a process of its own, of few benchmarks and one probe."""
    modules("few", PROGRAM)
    for name, value in {"OUT": "out", "KERNELGAP_STATE": "state", MARK: ""}.items():
        monkeypatch.setenv(name, str(tmp_path / value).rstrip("/"))
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        running.append(
            subprocess.Popen(
                [sys.executable, "-c", VISIT], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        )
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
            process.communicate()
    for left in marked(tmp_path):
        left.kill()


def gone(folder: Path) -> bool:
    """Whether all processes of a test end within ten seconds."""
    end = time.monotonic() + 10
    while marked(folder) and time.monotonic() < end:
        time.sleep(0.02)
    return not marked(folder)


def test_killed_at_random_moments_it_leaves_whole_lines_and_goes_on(
    visit: Callable[[], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """What it started dies with it: the next visit writes to the same files."""
    out, rng = tmp_path / "out", random.Random(5)
    file, before = out / "run.jsonl", b""
    for _ in range(3):
        process = visit()
        while process.poll() is None and (not file.exists() or file.stat().st_size <= len(before)):
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert gone(tmp_path)
        whole(out)
        assert file.read_bytes().startswith(before)
        before = file.read_bytes()
    process = visit()
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0, (err, words(out, "log.txt"))
    whole(out)
    names = [x.contest for x in store.read(file).contests]
    assert len(set(names)) == len(names) and file.read_bytes().startswith(before)
    assert {x.name for x in out.iterdir()} <= SIX


def test_what_it_started_ends_with_it(
    tmp_path: Path, modules: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, str(tmp_path))
    modules("waits", "import time; print('begun'); time.sleep(600)")
    out = str(tmp_path / "out")
    program = (
        "from tests.gpu import run; run.steps = lambda *given: (run.Step('x', ('waits',), 'tests.txt', 1.0),); "
        f"run.main(['--fake', '--out', {out!r}])"
    )
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.DEVNULL)
    begun = tmp_path / "out" / "tests.txt"
    while process.poll() is None and not (begun.exists() and begun.stat().st_size):
        time.sleep(0.01)
    assert len(marked(tmp_path)) == 2
    process.kill()
    process.wait()
    ended = gone(tmp_path)
    for left in marked(tmp_path):
        left.kill()
    assert ended
