"""What the host makes of a case before it is timed."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from kernels.devices import open_device
from kernels.devices.base import Limits
from kernels.ops.gemm.problem import Gemm
from kernels.setting import Setting
from micro.planning.contest import VISIT, Case
from micro.worker import kernels
from micro.worker.host import Host
from micro.worker.kernels import Kernels


def test_the_time_of_a_launch_is_shared_by_its_uses(host: Host) -> None:
    once, kept = (Case(Gemm(48, 48, 48, "nt"), name) for name in ("openblas", "kept-transpose:8"))
    host.settle(host.open([once, kept], [True, True], 1), VISIT)
    assert host.contest is not None
    assert [entry.uses for entry in host.contest.entries] == [1, 8]


def test_long_kept_copies_are_timed_in_parts(host: Host) -> None:
    case = Case(Gemm(1024, 2048, 1400, "nt"), "kept-transpose:8")
    host.prepare(case)
    assert [uses for _, _, uses in host.kernels.binds(case)] == [8, 1]
    assert [variant.name for variant, _, _ in host.kernels.binds(case)] == ["transpose-copy", "nn-on-copy"]


def test_all_measured_cases_have_the_same_number_of_launches(host: Host) -> None:
    cases = [Case(Gemm(32, 32, 32), "openblas"), Case(Gemm(32, 32, 32), "naive")]
    opened = host.settle(host.open(cases, [True, True], 1), VISIT)
    assert len(set(opened.launches)) == 1


def test_workers_that_take_turns_place_cold_operands_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the other's case as of its own: all the sets that its launches rotate among."""
    device = open_device("cpu")
    monkeypatch.setattr("micro.worker.contest.canaries", lambda device: [])
    monkeypatch.setattr(type(device), "limits", lambda self: Limits(8 << 30, 2, (1 << 15, 1 << 20)))
    cases = [Case(Gemm(48, 48, 48), name, Setting(cold=("a", "b"))) for name in ("openblas", "naive")]
    places = []
    for mine in ([True, False], [False, True]):
        host = Host(device, ctypes.addressof(ctypes.c_int32(-1)))
        host.open(cases, mine, 1)
        assert host.contest is not None
        host.contest.layout.spread()
        places.append(host.contest.layout.draw(0, 8).tolist())
    assert places[0] == places[1]


# Right answers that rivals share


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
