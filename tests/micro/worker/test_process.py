"""A worker whose kernels do what they must not: it dies, hangs, lives on; and no answer is taken for another."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernels.errors import Unavailable
from kernels.ops.gemm import Gemm
from kernels.setting import Setting
from micro.planning.contest import Case
from micro.worker import process
from micro.worker.client import Died, ask, ask_all
from micro.worker.messages import Check, Prepare
from micro.worker.process import Worker
from tests.processes import MARK, marked

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
    end = time.monotonic() + 5.0
    while left := [x for x in marked(tmp_path) if x.pid != os.getpid()]:
        assert time.monotonic() < end, f"left: {left}"
        time.sleep(0.01)


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
