"""Workers and children that speak JSON: how they die, hang and ramble, and what a worker's kernels leave changed."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import LaunchError, Unavailable, WrongResult
from kernels.ops.gemm import Gemm
from kernels.setting import Setting
from micro.planning.contest import Case
from micro.worker import json_child, process, process_state
from micro.worker.client import Died, ask
from micro.worker.json_child import JsonChild
from micro.worker.messages import Calibrate, Check, Prepare, RunRounds
from micro.worker.process import Worker, pin
from tests.processes import MARK, left, marked

PATIENCE = 60.0
SMALL = Gemm(8, 8, 8)
RIGHT = Case(SMALL, "openblas")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Worker]:
    """A worker; nothing of it is left after the test."""
    monkeypatch.setenv(MARK, str(tmp_path))
    monkeypatch.setattr(process, "CLOSE", 0.5)
    worker = Worker(Setting())
    yield worker
    worker.close()
    assert not left(tmp_path)


def kernel(folder: Path, code: str) -> Case:
    """A product whose launches first do something else."""
    path = folder / "own.py"
    path.write_text(f"import os, time\n\ndef own(problem, a, b, c):\n    {code}\n    a.dot(b, out=c)\n")
    return Case(SMALL, f"{path}:own")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("os._exit(3)", "ends its process with exit code 3"),
        ("os.abort()", "crashes: its process was killed by SIGABRT"),
        ("raise SystemExit(4)", "ends its process with exit code 4"),
        ("os.closerange(3, 256); time.sleep(600)", "closes its pipe and runs on without a reply"),
        ("if os.fork(): os._exit(5)\n    time.sleep(600)", "ends its process with exit code 5"),
        ("time.sleep(600)", "hangs: no reply within 2 s"),
    ],
)
def test_how_a_worker_ends(worker: Worker, tmp_path: Path, code: str, why: str) -> None:
    began = time.monotonic()
    with pytest.raises(Died, match=why):
        ask(worker, Prepare(kernel(tmp_path, code)), 2.0 if "hangs" in why else PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2, "it was not waited for"
    with pytest.raises(Died):
        ask(worker, Prepare(RIGHT), PATIENCE)


def test_what_a_kernel_started_ends_with_its_worker(worker: Worker, tmp_path: Path) -> None:
    code = "if os.fork() == 0: os.closerange(3, 256); time.sleep(600)"
    assert ask(worker, Prepare(kernel(tmp_path, code)), PATIENCE).uses == 1


def test_a_worker_of_a_device_that_is_not_here_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(MARK, str(tmp_path))
    with pytest.raises(Unavailable) as raised:
        Worker(Setting(device="cuda:7"))
    assert "cuda" in str(raised.value).lower()
    assert [x for x in marked(tmp_path) if x.pid != os.getpid()] == []


def test_an_error_is_not_left_for_the_next_request(worker: Worker) -> None:
    with pytest.raises(WrongResult):
        ask(worker, Check(Case(SMALL, "tests.wrong.kernels:WRITES_NOTHING"), 1), PATIENCE)
    assert ask(worker, Prepare(RIGHT), PATIENCE).uses == 1


@pytest.mark.parametrize(("threads", "cores"), [(1, {5}), (2, {4, 5}), (4, {2, 3, 4, 5}), (9, {2, 3, 4, 5})])
def test_the_last_cores_are_taken(monkeypatch: pytest.MonkeyPatch, threads: int, cores: set[int]) -> None:
    pinned: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 3, 4, 5})
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: pinned.append(set(cores)))
    pin(threads)
    assert pinned == [cores]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell of cores")
def test_a_worker_of_one_thread_has_one_core(worker: Worker) -> None:
    assert len(os.sched_getaffinity(worker._process.pid)) == 1


def test_a_look_without_a_contest_is_refused(worker: Worker) -> None:
    for request in (RunRounds(0, 1), Calibrate([], 1e-3)):
        with pytest.raises(LaunchError, match="no contest is open"):
            ask(worker, request, PATIENCE)  # type: ignore[arg-type]


C = ctypes.CDLL("libm.so.6")
ON_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="its numbers are those of x86")
UPWARD, DIVISION = 0x800, 4


def flushes() -> None:
    """As code compiled with -ffast-math where it is loaded."""
    before = process_state.take()
    library = process_state._library()
    library.state_restore(ctypes.byref(process_state.Floating(before.rounding, 0x8040, before.traps)))


LEFT = [
    pytest.param(lambda: C.fesetround(UPWARD), "changes the rounding mode", marks=ON_X86),
    pytest.param(flushes, "enables flush-to-zero of subnormal numbers", marks=ON_X86),
    pytest.param(lambda: C.feenableexcept(DIVISION), "unmasks floating-point exceptions", marks=ON_X86),
    (lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN), "changes the handler of SIGALRM"),
    (lambda: signal.signal(signal.SIGINT, lambda *given: None), "changes the handler of SIGINT"),
    (lambda: C.signal(signal.SIGFPE, 1), "changes the handler of SIGFPE"),
    (lambda: signal.setitimer(signal.ITIMER_REAL, 1000), "leaves a timer running"),
    (lambda: os.chdir("/"), "changes the current directory"),
    (lambda: os.umask(0o777), "changes the umask"),
    (lambda: os.environ.update(OMP_NUM_THREADS="7"), "changes the environment"),
]


@pytest.fixture
def before() -> Iterator[process_state.ProcessState]:
    found = process_state.take()
    yield found
    process_state.restore(found)


@pytest.mark.parametrize(("leave", "word"), LEFT)
def test_what_is_left_is_told_and_put_back(
    before: process_state.ProcessState, leave: Callable[[], object], word: str
) -> None:
    leave()
    assert process_state.state_changes(before, process_state.take()) == [word]
    process_state.restore(before)
    assert process_state.take() == before and process_state.state_changes(before, before) == []


def test_cores_are_put_back(before: process_state.ProcessState) -> None:
    if len(before.cores) < 2:
        pytest.skip("one core")
    os.sched_setaffinity(0, before.cores[:1])
    told = process_state.state_changes(before, process_state.take())
    assert told == ["changes its process's CPU affinity"]
    process_state.restore(before)
    assert process_state.take().cores == before.cores


def test_loading_may_flush_and_note_variables_and_change_nothing_else(before: process_state.ProcessState) -> None:
    os.environ["OMP_NUM_THREADS"] = "7"
    os.chdir("/")
    loaded = process_state.take()
    expected = process_state.but_for_loading(before, loaded)
    assert process_state.state_changes(expected, loaded) == ["changes the current directory"]


def test_threads_are_counted_by_name() -> None:
    wait = threading.Event()
    others = len(process_state.threads())
    thread = threading.Thread(target=wait.wait)
    thread.start()
    assert len(process_state.threads()) == others + 1
    wait.set()
    thread.join()


# Runs the code of each request, which may change the answer.
CHILD = """
import json, os, signal, sys, time

requests, write, parent = os.fdopen(int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
assert parent == os.getppid()
for line in requests:
    answer = {"ok": True}
    exec(json.loads(line)["code"])
    os.write(write, (json.dumps(answer) + "\\n").encode())
"""
HOW = {
    "os.kill(os.getpid(), signal.SIGSEGV)": "crashes: its process was killed by SIGSEGV",
    "os._exit(3)": "ends its process with exit code 3",
    "if os.fork() == 0: time.sleep(600)\nos._exit(0)": "ends its process with exit code 0",
    "os.close(write); time.sleep(600)": "closes its pipe and runs on without a reply",
    "os.write(write, b'nonsense\\n')": "sends an invalid message: b'nonsense'",
    "os.write(write, b'\\xff\\xfe\\n')": r"sends an invalid message: b'\\xff\\xfe'",
    "answer = [1, 2]": r"sends an invalid message: b'\[1, 2\]'",
}


def started() -> JsonChild:
    return JsonChild([sys.executable, "-IS", "-c", CHILD], os.environ)


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[JsonChild]:
    """A child; nothing of it is left after the test."""
    monkeypatch.setattr(json_child, "CLOSE", 0.5)
    monkeypatch.setenv(MARK, str(tmp_path))
    with started() as made:
        yield made
    assert not left(tmp_path)


def does(child: JsonChild, code: str, patience: float = 20.0) -> dict[str, Any]:
    child.send({"code": code})
    return child.receive(patience)


def test_an_answer_comes_whole(child: JsonChild) -> None:
    assert does(child, "") == {"ok": True}
    assert does(child, "answer['long'] = 'x' * (1 << 20)") == {"ok": True, "long": "x" * (1 << 20)}


def test_answers_are_taken_one_by_one(child: JsonChild) -> None:
    child.send({"code": "answer = {'a': 1}"})
    child.send({"code": "answer = {'b': 2}"})
    assert (child.receive(20.0), child.receive(20.0)) == ({"a": 1}, {"b": 2})


def test_what_it_prints_is_no_message(tmp_path: Path) -> None:
    with (
        (tmp_path / "log").open("wb") as stream,
        JsonChild([sys.executable, "-IS", "-c", CHILD], os.environ, stream) as made,
    ):
        assert does(made, "print('{}', flush=True); os.write(2, b'a warning')") == {"ok": True}
    assert (tmp_path / "log").read_text() == "{}\na warning"


@pytest.mark.parametrize("code", HOW)
def test_one_that_dies_or_rambles_is_blamed_by_how(child: JsonChild, code: str) -> None:
    with pytest.raises(Died, match=f"^{HOW[code]}$"):
        does(child, code)
    with pytest.raises(Died):  # and it stays dead
        does(child, "")


def test_one_that_hangs_is_not_waited_for(child: JsonChild) -> None:
    does(child, "")  # it has started
    with pytest.raises(Died, match=r"^hangs: no answer within 0 s$"):
        does(child, "time.sleep(60)", patience=0.05)
    with pytest.raises(Died, match="SIGKILL"):  # what it says late would be taken for the next answer
        does(child, "", patience=5.0)


def test_an_interrupt_is_the_driver_s_alone(child: JsonChild) -> None:
    """A terminal sends it to all processes of its foreground group."""
    assert does(child, "answer = {'group': os.getpgrp()}")["group"] != os.getpgrp()


def test_a_closed_child_leaves_no_descriptor() -> None:
    handles = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    other = started()
    does(other, "")
    other.close()
    other.close()
    with pytest.raises(FileNotFoundError):
        JsonChild(["/no/such/program"], os.environ)
    assert handles == (len(os.listdir("/proc/self/fd")) if handles else 0)
