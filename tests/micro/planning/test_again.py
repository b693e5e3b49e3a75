"""A contest planned from another's result: its cases, its pairs, its name."""

from __future__ import annotations

import pytest

from kernels.ops.gemm.problem import Gemm
from kernels.setting import Setting
from micro.planning.again import again
from micro.planning.benchmark import Request
from micro.planning.contest import Case
from reports import record

SMALL = Gemm(8, 8, 8)
CASES = [Case(SMALL, name, Setting(2, workspace=512)) for name in ("numpy", "openblas", "naive")]
MEASURED = record.Contest(f"first/{SMALL.name}/device:x", "who?", "variant", (), ())


def asked(device: str = "cpu") -> Request:
    return Request("gemm", {}, ("openblas",), (Setting(device=device),), frozenset())


@pytest.mark.parametrize(("in_turn", "pairs"), [(False, ((0, 1), (0, 2))), (True, ((0, 1), (1, 2)))])
def test_its_cases_are_those_that_were_chosen(in_turn: bool, pairs: tuple[tuple[int, int], ...]) -> None:
    names = [case.name for case in (CASES[2], CASES[0], CASES[1])]
    (contest,) = again(asked(), MEASURED, "second", "still?", names, in_turn=in_turn)
    assert (contest.name, contest.question, contest.differs) == (f"second/{SMALL.name}/device:x", "still?", "variant")
    assert [case.name for case in contest.cases] == names
    assert contest.comparisons == pairs


def test_what_another_device_measured_is_that_one_s() -> None:
    assert again(asked("fake"), MEASURED, "second", "still?", [case.name for case in CASES]) == []
