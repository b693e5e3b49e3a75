"""Contests on a simulated GPU: what a first visit would have lost, and a processor beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.devices import open_device
from kernels.devices.cuda import Cuda
from kernels.devices.fake import Fake
from kernels.ops.gemm import Gemm
from kernels.setting import Setting
from micro.command import everything, session
from micro.measuring.workers import Crew
from micro.planning.contest import Case
from micro.planning.options import Outputs
from micro.worker.client import Local
from micro.worker.host import Host
from micro.worker.process import Workers
from reports import record
from tests.simulated import fake_gpu
from tests.simulated.fake_cupy import FakeCupy


def test_the_front_door_has_seconds(monkeypatch: pytest.MonkeyPatch, own_state: Path) -> None:
    """Of 4.2 s of measuring, each contest of the M sweep in cuBLAS gets what six rounds of two cases and two ceilings
    take at 5 ms a visit."""
    fake = FakeCupy()
    gpu = Cuda(0, fake)
    given: dict[str, float] = {}
    part = next(x for x in everything.parts("fake:cuda") if x.name == "gemm" and "--transpose" in x.words)
    contests = [x for x in part.plan.contests if x.name.startswith(("strategy/", "nn-")) and "cublas" in repr(x.cases)]

    class Runner:
        def __init__(self) -> None:
            self.limits = {"fake:cuda": gpu.limits()}

        def run(self, contest: Any, seconds: float, budget: object, left: float, *_: object) -> Any:
            given[contest.name] = seconds
            return record.Contest(contest.name, contest.question, contest.differs, (), (), {"measuring": seconds})

    at: Any = type(
        "At",
        (),
        {
            "runner": Runner(),
            "progress": type("P", (), {"begin": lambda s, name: None})(),
            "file": type("F", (), {"append": lambda s, x: None})(),
        },
    )()
    budget: Any = part.plan.budget
    session.measure_all(at, contests, type(budget)(4.2))
    sweep = {name: seconds for name, seconds in given.items() if name.startswith("nn-nt/")}
    assert sweep and min(sweep.values()) >= 6 * 4 * 5e-3, sweep


def test_nothing_is_timed_where_a_profiler_was(
    monkeypatch: pytest.MonkeyPatch, own_state: Path, light_fake: None
) -> None:
    """In `micro all`: names after the last look, and not in the host that made it."""
    journal: list[str] = []
    known = everything.benchmarks()
    monkeypatch.setattr(everything, "benchmarks", lambda: {name: known[name] for name in ("stream", "transpose")})
    monkeypatch.setattr(Fake, "names", lambda self, call: journal.append("names") or [], raising=False)
    look = Host.look
    monkeypatch.setattr(Host, "look", lambda self, **given: journal.append("look") or look(self, **given))
    todo = everything.parts("fake:cuda", True)
    assert len(list(everything.run(todo, "fake:cuda", 1.0, Outputs(quiet=True)))) == len(todo)
    assert "look" not in journal[journal.index("names") if "names" in journal else len(journal) :]


def test_the_front_door_comes_first() -> None:
    """Of all that a GPU is asked, and element-wise questions come after it."""
    found = [part.name for part in everything.parts("fake:cuda")]
    assert found[0] == "gemm" and found.index("elementwise") > found.index("launch")


PROBLEM = Gemm(16, 16, 16)
SECONDS = 20e-6
ROUNDS = 8


@pytest.fixture
def cp() -> FakeCupy:
    made = FakeCupy()
    made.cost = lambda name: SECONDS
    return made


@pytest.fixture
def hosts(cp: FakeCupy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Host]]:
    monkeypatch.setattr("micro.worker.contest.canaries", lambda device: [])
    with pytest.MonkeyPatch.context() as patch:
        fake_gpu.install(patch, cp, tmp_path)
        yield {"cpu": Host(open_device("cpu"), 0), "cuda:0": Host(Cuda(0, cp), 0)}


@pytest.fixture
def crew(hosts: dict[str, Host]) -> Crew:
    serves = {name: Local(host) for name, host in hosts.items()}
    workers: Any = SimpleNamespace(key=Workers.key, get=lambda key: serves[key[0].device])
    cases = Case(PROBLEM, "openblas"), Case(PROBLEM, "cupy", Setting(device="cuda:0"))
    return Crew(workers, cases, seed=1)


def test_they_take_turns(crew: Crew) -> None:
    """As many launches for both; the GPU's by its own marks."""
    opened = crew.open(1.0)
    look = crew.look(0, ROUNDS, 1.0)
    assert look.launches == opened.launches and min(opened.launches) > 1
    assert look.wall[:, 1] == pytest.approx([SECONDS] * ROUNDS, rel=0.01)
    assert (look.wall[:, 0] > 0).all() and not look.lost[:, 1].any()
    crew.close()


def test_a_place_is_told_by_the_worker_that_it_is_in(crew: Crew, hosts: dict[str, Host]) -> None:
    """Their memory is aligned differently."""
    crew.open(1.0)
    look = crew.look(0, ROUNDS, 1.0)
    for i, host in enumerate(hosts.values()):
        assert host.contest is not None
        layout = host.contest.layout
        first = [layout.owners.index(entry) for entry in host.contest.entries][i]
        assert look.places[:, i].tolist() == [int(layout.draw(r, 1)[0, first]) for r in range(ROUNDS)]
    assert not (look.places[:, 1] % 512).any() and (look.places[:, 0] % 512).any()
