"""A ceiling of several threads in a worker of its own: when it is visited, whose columns are whose, who is to blame."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels.devices import open_device
from kernels.errors import LaunchError
from kernels.ops.gemm import Gemm
from kernels.setting import Setting
from micro.measuring import ceilings
from micro.measuring.workers import Crew
from micro.planning.contest import Case
from micro.worker.client import Local
from micro.worker.host import Host
from micro.worker.messages import Look, Open
from micro.worker.process import Workers

ROUNDS = 6
TWO = Setting(2, device="fake")
PRODUCTS = (Case(Gemm(64, 64, 64), "openblas", TWO), Case(Gemm(64, 64, 64, "nt"), "openblas", TWO))
LIMITS = {"fake": open_device("fake").limits()}


class Watched:
    """Workers of the fake device, one for each key, and what each was asked in order."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[Any, ...], Any]] = []
        self.hosts: dict[tuple[Any, ...], Host] = {}
        self.dropped: list[tuple[Any, ...]] = []
        self.raises: Any = None

    key = staticmethod(Workers.key)

    def get(self, key: tuple[Any, ...]) -> Any:
        host = self.hosts.setdefault(key, Host(open_device("fake"), 0))
        local = Local(host)

        def receive(request: Any, patience: float) -> Any:
            self.asked.append((key, request))
            if self.raises and isinstance(request, Look) and self.raises[0] == key:
                raise LaunchError("no")
            return local.receive(request, patience)

        def running() -> int:
            return int(self.raises[1])

        return SimpleNamespace(send=local.send, receive=receive, running=running)

    def drop(self, key: tuple[Any, ...]) -> None:
        self.dropped.append(key)

    def looks(self) -> list[tuple[tuple[Any, ...], Look]]:
        return [(key, x) for key, x in self.asked if isinstance(x, Look)]


def crew(workers: Any, *measured: Case) -> Crew:
    return Crew(workers, (*measured, *ceilings.cases(measured, LIMITS)), seed=1)


POOL = (Setting(2, device="fake"), "openblas")
TEAM = (Setting(2, device="fake"), "suite")


def test_a_team_has_a_worker_of_its_own_and_its_rounds_behind_those_of_the_cases() -> None:
    workers = Watched()
    made = crew(workers, *PRODUCTS)
    opened = made.open(1.0)
    assert not made.lockstep and len(opened.launches) == len(made.cases) == 4
    batch = made.look(0, ROUNDS, 1.0)
    assert [(key, x.rounds, x.only) for key, x in workers.looks()] == [(POOL, ROUNDS, None), (TEAM, ROUNDS, None)]
    assert [x.canary for _, x in workers.looks()] == [True, False]
    assert batch.wall.shape == (ROUNDS, 4) and (batch.wall > 0).all() and min(batch.launches) >= 1
    assert batch.canary


def test_a_worker_lays_out_what_it_visits() -> None:
    """The team's memory is not that of a contest whose cases it does not run, and each round has a place of its own."""
    workers = Watched()
    made = crew(workers, *PRODUCTS)
    made.open(1.0)
    opened = {key: x.cases for key, x in workers.asked if isinstance(x, Open)}
    assert opened == {POOL: PRODUCTS, TEAM: made.cases[2:]}
    places = made.look(0, 32, 1.0).places
    assert all(len(set(column)) > 4 for column in places.T)


def test_a_column_is_what_its_own_worker_measured() -> None:
    workers = Watched()
    made = crew(workers, *PRODUCTS)
    made.open(1.0)
    batch = made.look(0, ROUNDS, 1.0)
    rates = [case.problem.flops / np.median(batch.wall[:, i]) for i, case in enumerate(made.cases)]
    device: Any = workers.hosts[POOL].device
    for i, case in enumerate(made.cases):
        scripted = device._seconds(case.variant, case.problem)
        assert np.median(batch.wall[:, i]) == pytest.approx(scripted, rel=0.02), case.name
    assert len(set(rates)) == 4


def test_one_thread_and_two_take_turns_and_each_has_its_ceilings() -> None:
    """A ceiling of one thread is visited where a case of one thread lives."""
    workers = Watched()
    one = Case(Gemm(64, 64, 64), "openblas", Setting(device="fake"))
    made = crew(workers, PRODUCTS[0], one)
    made.open(1.0)
    assert made.lockstep and len(made.cases) == 2 + 2 * 2
    batch = made.look(0, 2, 1.0)
    assert (batch.wall > 0).all() and min(batch.launches) >= 1
    visits: dict[Any, int] = {}
    for key, _ in workers.looks():
        visits[key] = visits.get(key, 0) + 1
    alone = (Setting(device="fake"), "")
    assert visits == {POOL: 2, TEAM: 2 * 2, alone: 3 * 2}
    assert sum(x.canary for _, x in workers.looks()) == 1
    assert next(key for key, x in workers.looks() if x.canary) in (POOL, alone)


@pytest.mark.parametrize(("key", "running", "culprit"), [(POOL, 1, 1), (TEAM, 0, 2), (TEAM, 1, 3), (TEAM, -1, -1)])
def test_who_was_under_way_is_told_by_the_contest_s_own_numbers(key: Any, running: int, culprit: int) -> None:
    workers = Watched()
    made = crew(workers, *PRODUCTS)
    made.open(1.0)
    workers.raises = (key, running)
    with pytest.raises(LaunchError):
        made.look(0, ROUNDS, 1.0)
    assert made.culprit == culprit


def test_one_thread_has_one_worker() -> None:
    workers = Watched()
    made = crew(workers, Case(Gemm(64, 64, 64), "openblas", Setting(device="fake")))
    made.open(1.0)
    made.look(0, ROUNDS, 1.0)
    assert len(workers.hosts) == 1 and len(workers.looks()) == 1
