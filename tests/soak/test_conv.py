"""`python -m tests.soak conv`: what it checks, what it keeps, and that wrong answers and crashes are reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.devices import open_device
from kernels.errors import LaunchError, LeftRunning, Unavailable, WrongResult
from kernels.launch import Launch
from kernels.ops.conv.problem import Conv
from kernels.variant import Variant
from micro.planning.contest import Case
from micro.worker.client import Died
from micro.worker.process import Workers
from tests.soak import conv
from tests.soak.conv import CheckShared, Record, Right

Reply = Callable[[Case], Right]
SMALL, LARGE = Conv(1, 2, 3, 3, 2), Conv(2, 4, 9, 9, 4)


def row(name: str, **more: Any) -> Variant[Conv]:
    return Variant(name, "cpu", "tests", lambda *of: lambda buffers: Launch(lambda: None), **more)


FINE, CHOOSY = row("fine"), row("choosy", accepts=lambda problem: "too many: --n 1" if problem.n > 1 else None)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Reply], list[str]]:
    """`asked(reply)`: two kernels, three passes of two problems, a file of its own; the cases that were asked for, and
    `dropped` where a worker was given up."""
    problems = [replace(x, direction=each) for x in (LARGE, SMALL) for each in ("forward", "dgrad", "wgrad")]
    monkeypatch.setattr(conv, "KINDS", {"small": lambda: iter(problems)})
    monkeypatch.setattr(conv, "kernels", lambda: [FINE, CHOOSY, row("absent", missing=lambda: "pip install it")])
    monkeypatch.setattr("tests.soak.conv.state.folder", lambda: tmp_path)
    monkeypatch.setattr(conv, "EACH", 0.0)  # by which few kernels of a large one would cost less

    def simulated(reply: Reply) -> list[str]:
        calls: list[str] = []

        workers = SimpleNamespace(key=lambda case: "", get=lambda key: key, drop=lambda key: calls.append("dropped"))

        def ask(worker: str, request: CheckShared, patience: float) -> Right:
            case = request.case
            calls.append(f"{case.variant} {case.problem.name}")
            return reply(case)

        monkeypatch.setattr(conv, "Workers", lambda: nullcontext(workers))
        monkeypatch.setattr(conv, "ask", ask)
        return calls

    return simulated


def large(case: Case) -> bool:
    return case.problem.flops > SMALL.flops


def right(case: Case) -> Right:
    return Right(0.5 if large(case) else 0.25, "a library's", 0.125)


def only(path: Path) -> Path:
    (file,) = path.glob("soak-conv/*.jsonl")
    return file


def test_the_cheapest_come_first_and_what_is_right_is_not_asked_again(
    asked: Callable[[Reply], list[str]], tmp_path: Path
) -> None:
    calls = asked(right)
    absent, forecast, small, other, every = conv.figures("small")
    assert absent.value == "absent: pip install it"
    assert forecast.value.startswith("2 distinct, 6 with their batches, layouts and passes, 2 kernels: 9 of 9 checks")
    assert str(tmp_path) in forecast.value
    assert len(calls) == 9 and all(SMALL.name[:12] in call for call in calls[:6])
    assert small.name == SMALL.name and small.value.startswith("6 right; at most 0.25 of its bound, fine on")
    assert other.value.startswith("3 right; 3 refused; at most 0.5 of its bound")
    assert every.value.startswith("9 right; 3 refused") and every.held
    again = asked(right)
    forecast = [*conv.figures("small")][1]
    assert again == [] and "0 of 9 checks are left, about 0 min" in forecast.value
    _, line, *_ = map(json.loads, only(tmp_path).read_text().splitlines())
    outcome = {"outcome": "right", "share": 0.25, "kernel": "a library's", "seconds": 0.125}
    assert line == {"problem": SMALL.name, "variant": "fine", **outcome}


@pytest.mark.parametrize(
    ("error", "outcome", "held", "dropped"),
    [
        (WrongResult("off by 3"), "wrong", False, False),
        (LeftRunning("threads run on"), "wrong", False, True),
        (Died("crashes: its process died of SIGSEGV"), "crashed", False, True),
        (LaunchError("raises MemoryError"), "failed", False, False),
        (Unavailable("no such kernel"), "unavailable", True, False),
    ],
)
def test_what_is_not_right_is_told_and_asked_again(
    asked: Callable[[Reply], list[str]], error: Exception, outcome: str, held: bool, dropped: bool
) -> None:
    def reply(case: Case) -> Right:
        if case.variant == "choosy" and case.problem.name.endswith("direction:dgrad"):
            raise error
        return right(case)

    calls = asked(reply)
    *_, small, other, every = conv.figures("small")
    assert calls.count("dropped") == dropped
    assert small.held == every.held == held and other.held
    where = f"choosy on {replace(SMALL, direction='dgrad').name} {outcome}: {error}"
    assert (where in small.value) == (where in every.value) == (not held)
    assert f"5 right; 1 {outcome}" in small.value
    calls = asked(right)
    *_, every = conv.figures("small")
    assert every.held and len(calls) == (0 if held else 1)
    assert ("9 right; 3 refused" in every.value) == (not held)


def test_it_goes_on_behind_a_kill(asked: Callable[[Reply], list[str]], tmp_path: Path) -> None:
    def killed(case: Case) -> Right:
        if large(case):
            raise KeyboardInterrupt
        return right(case)

    asked(killed)
    with pytest.raises(KeyboardInterrupt):
        list(conv.figures("small"))
    file = only(tmp_path)
    file.write_bytes(file.read_bytes()[:-9])  # the last line is cut short
    calls = asked(right)
    *_, every = conv.figures("small")
    assert len(calls) == 4 and every.value.startswith("9 right; 3 refused")
    assert len(Record(file).lines) == 9
    assert file.read_text().count('\n{"head"') == 1, "the cut line has an end of its own"


def test_a_worker_answers_a_shared_check() -> None:
    """The class of the message lies in no folder of the product."""
    with Workers() as workers:
        reply = conv.outcome(workers, Case(SMALL, "direct", conv.POSITIVE))
    assert reply["outcome"] == "right", reply


def test_a_shared_check_is_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process; references are found once for rivals, apart for those that keep a filter."""
    problem = Conv(2, 16, 40, 40, 32, pad=1)
    host: Any = None
    counted: list[Conv] = []
    reference = Conv.reference

    def counting(problem: Conv, x: Any) -> Any:
        counted.append(problem)
        return reference(problem, x)

    monkeypatch.setattr(Conv, "reference", counting)
    names = ("direct", "winograd-2x3", "winograd-6x3", "winograd-2x3-kept", "winograd-6x3-kept")
    replies = [CheckShared(Case(problem, name, conv.POSITIVE), 1).on(host) for name in names]
    assert all(0 < reply.share < 1 for reply in replies)
    assert len(counted) == 2 * 4  # dense, sparse, positive, and graded for those whose growth is 1
    with pytest.raises(WrongResult):
        CheckShared(Case(problem, f"{__file__}:HALVES"), 1).on(host)
    conv._drawn.cache_clear()


def _halves(problem: Conv, device: Any, setting: Any) -> Any:
    from kernels.catalog import find

    bind = find("conv", "direct").prepare(problem, open_device("cpu"), setting)

    def bound(buffers: Any) -> Launch:
        call = bind(buffers).call

        def halved() -> None:
            call()
            buffers[2][...] *= 0.5

        return Launch(halved)

    return bound


HALVES = Variant("HALVES", "cpu", "tests", _halves, python=True)
