"""A worker whose kernels die, hang, live on, or leave their process changed; no answer is taken for another."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernels.errors import LaunchError, Unavailable, WrongResult
from kernels.ops.gemm import Gemm
from kernels.setting import Setting
from micro.planning.contest import Case
from micro.worker import process, process_state
from micro.worker.client import Died, ask, ask_all
from micro.worker.messages import Check, Look, Prepare, Settle
from micro.worker.process import Worker, oversubscribed, pin
from tests.processes import MARK, left, marked

PATIENCE = 60.0
SMALL = Gemm(8, 8, 8)
RIGHT = Case(SMALL, "openblas")


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., list[Worker]]]:
    """Ranks; nothing of them is left after the test."""
    monkeypatch.setenv(MARK, str(tmp_path))
    monkeypatch.setattr(process, "CLOSE", 0.5)
    workers: list[Worker] = []

    def ranks(count: int) -> list[Worker]:
        workers.extend(Worker(Setting(), rank=rank) for rank in range(count))
        return workers

    yield ranks
    for worker in workers:
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
        ("os.abort()", "crashes: its process died of SIGABRT"),
        ("raise SystemExit(4)", "ends its process with exit code 4"),
        ("os.closerange(3, 256); time.sleep(600)", "closes its descriptor and goes on without an answer"),
        ("if os.fork(): os._exit(5)\n    time.sleep(600)", "ends its process with exit code 5"),
        ("time.sleep(600)", "hangs: no answer within 2 s"),
    ],
)
def test_how_a_worker_ends(begin: Callable[..., list[Worker]], tmp_path: Path, code: str, why: str) -> None:
    (worker,) = begin(1)
    began = time.monotonic()
    with pytest.raises(Died, match=why):
        ask(worker, Prepare(kernel(tmp_path, code)), 2.0 if "hangs" in why else PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2, "it was not waited for"
    with pytest.raises(Died):
        ask(worker, Prepare(RIGHT), PATIENCE)


def test_what_a_kernel_started_ends_with_its_worker(begin: Callable[..., list[Worker]], tmp_path: Path) -> None:
    (worker,) = begin(1)
    code = "if os.fork() == 0: os.closerange(3, 256); time.sleep(600)"
    assert ask(worker, Prepare(kernel(tmp_path, code)), PATIENCE).uses == 1


def test_a_worker_of_a_device_that_is_not_here_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, begin: Callable[..., list[Worker]], tmp_path: Path
) -> None:
    with pytest.raises(Unavailable) as raised:
        Worker(Setting(device="cuda:7"))
    assert "cuda" in str(raised.value).lower()
    assert [x for x in marked(tmp_path) if x.pid != os.getpid()] == []


@pytest.mark.parametrize("dead", [0, 1])
def test_a_rank_that_is_gone_leaves_no_answer_of_the_other(begin: Callable[..., list[Worker]], dead: int) -> None:
    """Its request cannot be sent; that of the other was, or is not."""
    ranks = begin(2)
    ranks[dead]._process.kill()
    ranks[dead]._process.wait()
    with pytest.raises(Died, match="died of SIGKILL"):
        ask_all(ranks, [Check(RIGHT, 1), Check(RIGHT, 1)], PATIENCE)
    assert ask(ranks[1 - dead], Prepare(RIGHT), PATIENCE).uses == 1


@pytest.mark.slow
def test_a_rank_that_hangs_leaves_no_answer_of_the_other(begin: Callable[..., list[Worker]], tmp_path: Path) -> None:
    ranks = begin(2)
    hangs = kernel(tmp_path, "time.sleep(600)")
    with pytest.raises(Died, match="hangs"):
        ask_all(ranks, [Prepare(hangs), Prepare(RIGHT)], 2.0)
    assert ask(ranks[1], Check(RIGHT, 1), PATIENCE).error <= 1
    with pytest.raises(Died):
        ask(ranks[0], Prepare(RIGHT), PATIENCE)


def test_a_late_answer_is_waited_for(begin: Callable[..., list[Worker]], tmp_path: Path) -> None:
    ranks = begin(2)
    late = kernel(tmp_path, "time.sleep(0.3)")
    prepared = ask_all(ranks, [Prepare(late), Prepare(RIGHT)], PATIENCE)
    assert [str(one.kernel).partition(" ")[0] for one in prepared] == ["own.py", "OpenBLAS"]


# Ranks of one launch

MEETS = """
import os
import numpy as np

THERE, HERE = os.open({there!r}, os.O_WRONLY), os.open({here!r}, os.O_RDONLY)

def meets(problem, a, b, c):
    os.write(THERE, b".")
    os.read(HERE, 1)
    np.matmul(a, b, out=c)
"""


@pytest.fixture
def meeting(tmp_path: Path) -> Iterator[list[Case]]:
    """The kernel of each of two ranks: it writes into the pipe of the other and reads its own, so that no launch ends
    before both have begun."""
    pipes = [os.pipe(), os.pipe()]
    for rank in range(2):
        # A path under /proc opens a pipe again in another process.
        there, here = (f"/proc/{os.getpid()}/fd/{end}" for end in (pipes[1 - rank][1], pipes[rank][0]))
        (tmp_path / f"rank{rank}.py").write_text(MEETS.format(there=there, here=here))
    yield [Case(SMALL, f"{tmp_path}/rank{rank}.py:meets") for rank in range(2)]
    for end in (end for pipe in pipes for end in pipe):
        os.close(end)


def test_two_ranks_of_a_launch_run_at_once(meeting: list[Case], begin: Callable[..., list[Worker]]) -> None:
    workers = begin(2)
    ask_all(workers, [Prepare(case) for case in meeting], PATIENCE)
    passed = ask_all(workers, [Check(case, 1) for case in meeting], PATIENCE)
    assert all(one.error <= 1 for one in passed)


@pytest.mark.slow
def test_one_rank_alone_waits_for_the_other(meeting: list[Case], begin: Callable[..., list[Worker]]) -> None:
    with pytest.raises(Died, match="hangs"):
        ask(begin(2)[0], Prepare(meeting[0]), 2.0)  # which calls a person's function once


def test_an_answer_is_not_left_for_the_next_request(begin: Callable[..., list[Worker]]) -> None:
    """Where one rank fails, the other's answer is taken all the same."""
    workers = begin(2)
    wrong = Case(SMALL, "tests.wrong.kernels:WRITES_NOTHING")
    with pytest.raises(WrongResult):
        ask_all(workers, [Check(wrong, 1), Check(RIGHT, 1)], PATIENCE)
    assert ask(workers[1], Prepare(RIGHT), PATIENCE).uses == 1


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell of cores")
def test_ranks_have_cores_of_their_own(begin: Callable[..., list[Worker]]) -> None:
    every = os.sched_getaffinity(0)
    if len(every) < 2:
        assert oversubscribed(2, 1)
        return
    cores = [os.sched_getaffinity(worker._process.pid) for worker in begin(2)]
    assert all(len(own) == 1 for own in cores) and not cores[0] & cores[1]
    assert not oversubscribed(2, 1) and oversubscribed(len(every) + 1, 1)


@pytest.mark.parametrize(
    ("threads", "cores"), [(1, [{5}, {4}]), (2, [{4, 5}, {2, 3}, {4, 5}]), (4, [{2, 3, 4, 5}]), (9, [{2, 3, 4, 5}])]
)
def test_the_cores_of_a_rank(monkeypatch: pytest.MonkeyPatch, threads: int, cores: list[set[int]]) -> None:
    """Of cores 2 to 5; a rank for which none are left shares those of another."""
    pinned: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 3, 4, 5})
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: pinned.append(set(cores)))
    for rank in range(len(cores)):
        pin(threads, rank)
    assert pinned == cores


def test_a_look_without_a_contest_is_refused(begin: Callable[..., list[Worker]]) -> None:
    (worker,) = begin(1)
    for request in (Look(0, 1), Settle([], 1e-3)):
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
    pytest.param(lambda: C.fesetround(UPWARD), "leaves the rounding mode changed", marks=ON_X86),
    pytest.param(flushes, "leaves subnormal numbers treated as zero", marks=ON_X86),
    pytest.param(lambda: C.feenableexcept(DIVISION), "leaves floating-point exceptions unmasked", marks=ON_X86),
    (lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN), "leaves the handler of SIGALRM changed"),
    (lambda: signal.signal(signal.SIGINT, lambda *given: None), "leaves the handler of SIGINT changed"),
    (lambda: C.signal(signal.SIGFPE, 1), "leaves the handler of SIGFPE changed"),
    (lambda: signal.setitimer(signal.ITIMER_REAL, 1000), "leaves a timer running"),
    (lambda: os.chdir("/"), "leaves the current directory changed"),
    (lambda: os.umask(0o777), "leaves the mode of new files changed"),
    (lambda: os.environ.update(OMP_NUM_THREADS="7"), "leaves the environment changed"),
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
    assert process_state.take() == before


def test_cores_are_put_back(before: process_state.ProcessState) -> None:
    if len(before.cores) < 2:
        pytest.skip("one core")
    os.sched_setaffinity(0, before.cores[:1])
    told = process_state.state_changes(before, process_state.take())
    assert told == ["leaves the cores changed that its process may run on"]
    process_state.restore(before)
    assert process_state.take().cores == before.cores


def test_nothing_left_is_nothing_told(before: process_state.ProcessState) -> None:
    assert process_state.state_changes(before, process_state.take()) == []


def test_loading_may_flush_and_note_variables_and_change_nothing_else(before: process_state.ProcessState) -> None:
    os.environ["OMP_NUM_THREADS"] = "7"
    os.chdir("/")
    loaded = process_state.take()
    expected = process_state.but_for_loading(before, loaded)
    assert process_state.state_changes(expected, loaded) == ["leaves the current directory changed"]


def test_threads_are_counted_by_name() -> None:
    wait = threading.Event()
    others = len(process_state.threads())
    thread = threading.Thread(target=wait.wait)
    thread.start()
    assert len(process_state.threads()) == others + 1
    wait.set()
    thread.join()
