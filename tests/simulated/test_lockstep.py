"""A processor and a GPU in one contest: each case in its own device's worker, the other's only placed there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.devices import open_device
from kernels.devices.cuda import Cuda
from kernels.ops.gemm import Gemm
from kernels.setting import Setting
from micro.measuring.workers import Crew
from micro.planning.contest import Case
from micro.worker.client import Local
from micro.worker.host import Host
from micro.worker.process import Workers
from tests.simulated import fake_gpu
from tests.simulated.fake_cupy import FakeCupy

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
