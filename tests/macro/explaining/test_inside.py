"""What a process tells beside its steps against what its rows say; events made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from macro.explaining import breakdown, inside, nominal
from macro.watching.recording import Recording
from reports.breakdown import Witness
from tests.macro.explaining.test_knock import MODULE_B, recorded

ROW = {"row": "net.b backward", "column": "gemm"}


def witnesses(names: tuple[str, str] = ("net.a", "net.b"), **program: Any) -> list[Witness]:
    made = recorded(10.0, "net.b", MODULE_B, names)
    made = Recording({**made.program, **program}, made.processes, None, made.called)
    found = breakdown.taken_apart(made, 1.0, breakdown.Ceilings(None, None))
    return list(inside.witnesses(found, nominal.work_of(made.called)))


def test_largest_calls_are_chosen_with_what_they_were_called_with() -> None:
    """Those of which the shapes are known; the row with two products first."""
    told = inside.largest(recorded(10.0, "net.b", MODULE_B))
    assert [(one["row"], one["column"]) for one in told] == [("net.a backward", "gemm"), ("net.b backward", "gemm")]
    assert told[0]["call"]["name"] == "aten::mm" and told[0]["call"]["types"] == ["float", "float"]


@pytest.mark.parametrize(
    ("logged", "verdict"),
    [
        ({"MKL SGEMM": 13e-3, "oneDNN reorder": 5e-3}, "agree"),
        ({"MKL SGEMM": 25e-3}, "disagree"),
        ({"MKL SGEMM": 9e-3}, "cannot tell"),  # the framework may multiply itself
    ],
)
def test_products_against_the_logs_of_libraries(logged: dict[str, float], verdict: str) -> None:
    (one,) = witnesses(logged=logged)
    assert one.verdict == verdict and one.seen == pytest.approx(sum(logged.values()))
    assert one.attributed == pytest.approx(18e-3, rel=0.01)


@pytest.mark.parametrize(
    ("warm", "cold", "seen", "verdict"),
    [
        (5.5, 7.0, 5.5, "agree"),  # said: 6 ms
        (7.0, 5.5, 5.5, "agree"),
        (6.5, 7.0, 6.5, "agree"),
        (2.0, 12.0, 2.0, "cannot tell"),  # as good as anything would be between
        (2.0, 3.0, 3.0, "disagree"),
        (9.0, 10.0, 9.0, "disagree"),
    ],
)
def test_a_call_against_itself_alone(warm: float, cold: float, seen: float, verdict: str) -> None:
    (one,) = witnesses(again=[{**ROW, "warm": warm * 1e-3, "cold": cold * 1e-3}])
    assert one.attributed == pytest.approx(6e-3, rel=0.01) and one.seen == pytest.approx(seen * 1e-3, rel=0.01)
    assert one.verdict == verdict


def test_with_two_threads_or_fresh_memory_nothing_is_red() -> None:
    again = [{**ROW, "warm": 2e-3, "cold": 3e-3}]
    assert witnesses(again=again)[0].verdict == "disagree"
    assert witnesses(again=again, heap="default")[0].verdict == "cannot tell"
    assert witnesses(logged={"MKL SGEMM": 90e-3}, threads=2)[0].verdict == "cannot tell"


def test_labels_that_are_exchanged_turn_it_red() -> None:
    (one,) = witnesses(("net.b", "net.a"), again=[{**ROW, "warm": 5e-3, "cold": 7e-3}])
    assert one.attributed == pytest.approx(2e-3, rel=0.01) and one.verdict == "disagree"


def test_what_nobody_told_has_no_witness() -> None:
    assert witnesses() == []
    assert witnesses(again=[{"row": "net.gone forward", "column": "gemm", "warm": 5e-3, "cold": 7e-3}]) == []
