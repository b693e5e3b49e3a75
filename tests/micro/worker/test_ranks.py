"""Ranks of one launch: they run at once, each on cores of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels.errors import LaunchError, WrongResult
from kernels.ops.gemm import Gemm
from kernels.setting import Setting
from micro.planning.contest import Case
from micro.worker.client import Died, ask, ask_all
from micro.worker.messages import Check, Look, Prepare, Settle
from micro.worker.process import Worker, oversubscribed, pin

PATIENCE = 60.0
SMALL = Gemm(8, 8, 8)


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[tuple[list[Worker], list[Case]]]:
    """Two workers and the kernel of each: it writes into the pipe of the other and reads its own, so that no launch
    ends before both have begun."""
    pipes = [os.pipe(), os.pipe()]
    paths = []
    for rank in range(2):
        # A path under /proc opens a pipe again in another process.
        ends = (f"/proc/{os.getpid()}/fd/{pipes[1 - rank][1]}", f"/proc/{os.getpid()}/fd/{pipes[rank][0]}")
        path = tmp_path / f"rank{rank}.py"
        path.write_text(
            "import os\nimport numpy as np\n\n"
            f"THERE, HERE = os.open({ends[0]!r}, os.O_WRONLY), os.open({ends[1]!r}, os.O_RDONLY)\n\n"
            "def meets(problem, a, b, c):\n"
            "    os.write(THERE, b'.')\n"
            "    os.read(HERE, 1)\n"
            "    np.matmul(a, b, out=c)\n"
        )
        paths.append(path)
    workers = [Worker(Setting(), rank=rank) for rank in range(2)]
    try:
        yield workers, [Case(SMALL, f"{path}:meets") for path in paths]
    finally:
        for worker in workers:
            worker.close()
        for end in (end for pipe in pipes for end in pipe):
            os.close(end)


def test_two_ranks_of_a_launch_run_at_once(ranks: tuple[list[Worker], list[Case]]) -> None:
    workers, cases = ranks
    ask_all(workers, [Prepare(case) for case in cases], PATIENCE)
    passed = ask_all(workers, [Check(case, 1) for case in cases], PATIENCE)
    assert all(one.error <= 1 for one in passed)


@pytest.mark.slow
def test_one_rank_alone_waits_for_the_other(ranks: tuple[list[Worker], list[Case]]) -> None:
    (first, _), (case, _) = ranks
    with pytest.raises(Died, match="hangs"):
        ask(first, Prepare(case), 2.0)  # which calls a person's function once


def test_an_answer_is_not_left_for_the_next_request() -> None:
    """Where one rank fails, the other's answer is taken all the same."""
    workers = [Worker(Setting(), rank=rank) for rank in range(2)]
    wrong, right = Case(SMALL, "tests.wrong.kernels:WRITES_NOTHING"), Case(SMALL, "openblas")
    try:
        with pytest.raises(WrongResult):
            ask_all(workers, [Check(wrong, 1), Check(right, 1)], PATIENCE)
        assert ask(workers[1], Prepare(right), PATIENCE).uses == 1
    finally:
        for worker in workers:
            worker.close()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell of cores")
def test_ranks_have_cores_of_their_own() -> None:
    every = os.sched_getaffinity(0)
    if len(every) < 2:
        assert oversubscribed(2, 1)
        return
    workers = [Worker(Setting(), rank=rank) for rank in range(2)]
    try:
        cores = [os.sched_getaffinity(worker._process.pid) for worker in workers]
    finally:
        for worker in workers:
            worker.close()
    assert all(len(own) == 1 for own in cores) and not cores[0] & cores[1]
    assert not oversubscribed(2, 1) and oversubscribed(len(every) + 1, 1)


@pytest.mark.parametrize(
    ("threads", "rank", "expected"),
    [
        (1, 0, {5}),
        (1, 1, {4}),
        (2, 0, {4, 5}),
        (2, 1, {2, 3}),
        (2, 2, {4, 5}),
        (4, 0, {2, 3, 4, 5}),
        (9, 0, {2, 3, 4, 5}),
    ],
)
def test_the_cores_of_a_rank(monkeypatch: pytest.MonkeyPatch, threads: int, rank: int, expected: set[int]) -> None:
    """Of cores 2 to 5; a rank for which none are left shares those of another."""
    pinned: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 3, 4, 5})
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: pinned.append(set(cores)))
    pin(threads, rank)
    assert pinned == [expected]


def test_a_look_without_a_contest_is_refused() -> None:
    worker = Worker(Setting())
    try:
        for request in (Look(0, 1), Settle([], 1e-3)):
            with pytest.raises(LaunchError, match="no contest is open"):
                ask(worker, request, PATIENCE)  # type: ignore[arg-type]
    finally:
        worker.close()
