"""What a kernel does costs its own case: the others of its contest are measured, and no process is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from kernels.devices import open_device
from kernels.ops.gemm.problem import Gemm
from micro.measuring import checks
from micro.measuring.canary_history import History
from micro.measuring.checks import Checks
from micro.measuring.runner import Runner
from micro.planning.contest import Budget, Case, Contest
from micro.worker.client import Client, ask
from micro.worker.messages import Check, Message
from micro.worker.process import Workers
from reports import record
from tests.processes import ROOT, becomes, gone, python

PRODUCT = Gemm(32, 32, 32)
GOOD = ("openblas", "numpy")
VERDICTS = ("slower", "faster", "same", "unresolved")
PATIENCE = 4.0  # seconds for a kernel that hangs, in place of ten


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> object:
    """A short patience; and every child that a test started is gone when it ends."""
    monkeypatch.setattr(checks, "PATIENCE", PATIENCE)
    before = children()
    yield
    assert children() <= before


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def wrong(name: str) -> str:
    return f"tests.wrong.kernels:{name}"


def contest(*variants: str) -> record.Contest:
    """The record of a contest between variants of one small product."""
    cases = tuple(Case(PRODUCT, variant) for variant in variants)
    asked = Contest("faults", "what does a fault cost?", "variant", cases)
    with Workers() as workers:
        runner = Runner(Checks(workers), {"cpu": open_device("cpu").limits()}, History("faults"))
        return runner.run(asked, 0.3, Budget(0.3))


def by_variant(told: record.Contest) -> dict[str, record.Result]:
    return {result.variant: result for result in told.results if result.role == "measured"}


def assert_measured(told: record.Contest, variant: str) -> None:
    result = by_variant(told)[variant]
    assert result.status in record.TIMED, result.reason
    assert result.seconds is not None and result.seconds.median > 0


def comparison(told: record.Contest, contender: str) -> record.Comparison:
    found = [one for one in told.comparisons if one.contender.endswith(f"variant:{contender}/threads:1")]
    assert len(found) == 1
    return found[0]


def assert_compared(told: record.Contest, contender: str) -> None:
    one = comparison(told, contender)
    assert one.verdict in VERDICTS
    assert one.ratio is not None or one.reason


@pytest.mark.slow
def test_three_faulty_kernels_cost_themselves_only() -> None:
    faulty = {
        "SEGFAULT": r"^crashes: its process was killed by SIGSEGV$",
        "LOOPS": f"^hangs: no reply within {PATIENCE:.0f} s$",
        "RAISES": r"^raises ArithmeticError: .*no such product",
    }
    told = contest(*GOOD, *map(wrong, faulty))
    for variant in GOOD:
        assert_measured(told, variant)
    assert_compared(told, "numpy")
    for name, reason in faulty.items():
        result = by_variant(told)[wrong(name)]
        assert (result.status, result.seconds) == ("failed", None)
        assert re.search(reason, result.reason or "")
        one = comparison(told, wrong(name))
        assert (one.verdict, one.ratio) == ("not comparable", None)
        assert re.search(reason.strip("^"), one.reason or "")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("SEGFAULT_WHEN_TIMED", "while timed: crashes: its process was killed by SIGSEGV"),
        pytest.param("RAISES_WHEN_TIMED", "while timed: raises ArithmeticError"),
    ],
)
def test_kernel_that_fails_when_timed_costs_itself_only(name: str, reason: str) -> None:
    told = contest(GOOD[0], wrong(name), GOOD[1])
    for variant in GOOD:
        assert_measured(told, variant)
    assert_compared(told, "numpy")
    result = by_variant(told)[wrong(name)]
    assert result.status == "failed"
    assert (result.reason or "").startswith(reason)
    assert result.error is not None  # it had passed its check


@pytest.mark.slow
def test_what_was_checked_in_a_worker_that_died_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the one that times it; not where the one that checked it lives."""
    asked: list[str] = []

    def heard(client: Client, request: Message[Any], patience: float) -> Any:
        if isinstance(request, Check):
            asked.append(request.case.variant)
        return ask(client, request, patience)

    monkeypatch.setattr(checks, "ask", heard)
    told = contest(*GOOD)
    assert asked == [*GOOD]
    asked.clear()
    told = contest(GOOD[0], wrong("SEGFAULT"), GOOD[1])  # dies while the first one waits
    assert asked == [GOOD[0], wrong("SEGFAULT"), GOOD[1], GOOD[0]]
    asked.clear()
    told = contest(*GOOD, wrong("SEGFAULT_WHEN_TIMED"))
    assert asked == [*GOOD, wrong("SEGFAULT_WHEN_TIMED"), *GOOD]
    assert all(by_variant(told)[variant].status in record.TIMED for variant in GOOD)


# The parent killed


PARENT = """
from kernels.ops.gemm.problem import Gemm
from kernels.setting import Setting
from micro.planning.contest import Case
from micro.worker.client import ask
from micro.worker.messages import Check
from micro.worker.process import Worker

worker = Worker(Setting())
print(worker._process.pid, flush=True)
ask(worker, Check(Case(Gemm(8, 8, 8), "tests.wrong.kernels:LOOPS"), 1), 60.0)
"""


def test_worker_dies_with_its_parent_even_in_a_kernel_that_hangs() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    ) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        started = worker.cpu_times().user
        assert becomes(lambda: worker.cpu_times().user > started + 0.3), "it is not in its kernel"
        parent.send_signal(signal.SIGKILL)
    assert parent.returncode == -signal.SIGKILL
    assert gone(worker.pid)


# The command


@pytest.mark.slow
@pytest.mark.parametrize("crashes", ["tests.wrong.kernels:SEGFAULT", "tests/wrong/kernels.py:SEGFAULT"])
def test_command_with_a_crashing_kernel_exits_1_and_its_json_is_whole(tmp_path: Path, crashes: str) -> None:
    words = ["--m", "32", "--n", "32", "--k", "32", "--budget", "1s", "--json", "-"]
    words += ["--variant", f"openblas,{crashes}"]
    told = python("-m", "micro.gemm", *words, state=tmp_path)
    assert told.returncode == 1, told.stderr
    assert "Traceback" not in told.stderr
    document = json.loads(told.stdout)
    results = {one["variant"]: one for one in document["results"] if one["role"] == "measured"}
    crashed = results[crashes]
    assert (crashed["status"], crashed["seconds"]) == ("failed", None)
    assert crashed["reason"] == "crashes: its process was killed by SIGSEGV"
    assert results["openblas"]["status"] in record.TIMED
    assert [one["verdict"] for one in document["comparisons"]] == ["not comparable"]
