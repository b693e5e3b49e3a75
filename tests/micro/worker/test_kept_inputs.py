"""On a processor the right answer of a large problem is found once for all its rivals, of a small one for each."""

from __future__ import annotations

from typing import Any

import pytest

from kernels.devices import open_device
from kernels.ops.gemm.problem import Gemm
from micro.planning.contest import Case
from micro.worker import kernels
from micro.worker.kernels import Kernels

PROBLEM, OTHER = Gemm(16, 24, 32), Gemm(16, 24, 48)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Gemm]:
    """The problems whose right answer was worked out, one after another."""
    problems: list[Gemm] = []
    reference = Gemm.reference

    def counted(self: Gemm, x: Any) -> object:
        problems.append(self)
        return reference(self, x)

    monkeypatch.setattr(Gemm, "reference", counted)
    return problems


def checked(*cases: tuple[Gemm, str]) -> Kernels:
    here = Kernels(open_device("cpu"))
    for problem, variant in cases:
        passed = here.check(Case(problem, variant), 7)
        assert passed.error <= passed.bound
    return here


def test_a_large_problem_s_rivals_share_it(monkeypatch: pytest.MonkeyPatch, found: list[Gemm]) -> None:
    checked((PROBLEM, "numpy"))
    alone = len(found)
    monkeypatch.setattr(kernels, "DEAR", 0.0)
    found.clear()
    checked((PROBLEM, "numpy"))
    once = len(found)
    found.clear()
    checked((PROBLEM, "numpy"), (PROBLEM, "naive"))
    assert once <= alone and len(found) < 2 * once


def test_a_small_one_s_do_not(found: list[Gemm]) -> None:
    checked((PROBLEM, "numpy"))
    alone = len(found)
    found.clear()
    checked((PROBLEM, "numpy"), (PROBLEM, "naive"))
    assert len(found) == 2 * alone


def test_no_more_than_one_problem_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "DEAR", 0.0)
    here = checked((PROBLEM, "numpy"), (OTHER, "numpy"))
    assert [problem for problem, *_ in here._drawn] == [OTHER]


def test_none_is_kept_where_operands_take_much_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "DEAR", 0.0)
    monkeypatch.setattr(kernels, "LARGE", 1)
    assert not checked((PROBLEM, "numpy"))._drawn
