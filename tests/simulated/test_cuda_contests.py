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
from micro.command import everything
from micro.measuring.workers import ContestWorkers
from micro.planning.contest import Case
from micro.planning.options import Outputs
from micro.worker.client import Local
from micro.worker.host import Host
from micro.worker.process import Workers
from tests.simulated import fake_gpu
from tests.simulated.fake_cupy import FakeCupy


def test_nothing_is_timed_where_a_profiler_was(
    monkeypatch: pytest.MonkeyPatch, own_state: Path, light_fake: None
) -> None:
    """In `micro all`: names after the last look, and not in the host that made it."""
    journal: list[str] = []
    known = everything.benchmarks()
    monkeypatch.setattr(everything, "benchmarks", lambda: {name: known[name] for name in ("stream", "transpose")})
    monkeypatch.setattr(Fake, "names", lambda self, call: journal.append("names") or [], raising=False)
    look = Host.run_rounds
    monkeypatch.setattr(Host, "run_rounds", lambda self, **given: journal.append("look") or look(self, **given))
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
def crew(hosts: dict[str, Host]) -> ContestWorkers:
    serves = {name: Local(host) for name, host in hosts.items()}
    workers: Any = SimpleNamespace(key=Workers.key, get=lambda key: serves[key[0].device])
    cases = Case(PROBLEM, "openblas"), Case(PROBLEM, "cupy", Setting(device="cuda:0"))
    return ContestWorkers(workers, cases, seed=1)


def test_they_take_turns(crew: ContestWorkers) -> None:
    """As many launches for both; the GPU's by its own marks."""
    opened = crew.open(1.0)
    look = crew.run_rounds(0, ROUNDS, 1.0)
    assert look.launches == opened.launches and min(opened.launches) > 1
    assert look.wall[:, 1] == pytest.approx([SECONDS] * ROUNDS, rel=0.01)
    assert (look.wall[:, 0] > 0).all() and not look.lost[:, 1].any()
    crew.close()


def test_a_place_is_told_by_the_worker_that_it_is_in(crew: ContestWorkers, hosts: dict[str, Host]) -> None:
    """Their memory is aligned differently."""
    crew.open(1.0)
    look = crew.run_rounds(0, ROUNDS, 1.0)
    for i, host in enumerate(hosts.values()):
        assert host.contest is not None
        layout = host.contest.layout
        first = [layout.owners.index(entry) for entry in host.contest.entries][i]
        assert look.places[:, i].tolist() == [int(layout.draw(r, 1)[0, first]) for r in range(ROUNDS)]
    assert not (look.places[:, 1] % 512).any() and (look.places[:, 0] % 512).any()
