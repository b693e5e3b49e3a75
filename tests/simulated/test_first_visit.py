"""What a first visit to a GPU would have lost, each as the person who made it would have seen it: rows 4, 5, 6 and 8 of
a reading of the CUDA code. Written so that the code of before can run it, too."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.devices.cuda import Cuda
from kernels.devices.fake import Fake
from kernels.launch import Launch
from micro.command import everything, session
from micro.planning.options import Outputs
from micro.worker import visits
from micro.worker.host import Host
from reports import record
from tests.simulated.fake_cupy import FakeCupy

KERNELS, LAUNCHES, SECONDS = 160, 170, 2e-6  # cuda-each over 160 tensors, as often as its fastest rival


def test_what_does_not_fit_behind_a_hold_is_not_timed_as_its_caller() -> None:
    """27,200 kernels: 5 us each of their caller, 2 us of the device."""
    fake = FakeCupy()
    fake.pace, fake.patient = 5e-6, True
    device = Cuda(0, fake)
    many = Launch(lambda: [fake.launch("kernel", SECONDS) for _ in range(KERNELS)])
    count = np.zeros(8, np.int32)
    plan = visits.Visits(count, [], [LAUNCHES], [2], [False], [0])
    cell = (id(None),) if "running" not in inspect.signature(visits.stepwise).parameters else ()
    running: Any = () if cell else (np.zeros(1, np.int32).ctypes.data,)
    timed: Any = visits.stepwise(device, [[many]] * len(count), plan, *running)
    made = getattr(timed, "launches", LAUNCHES)
    kept = timed.wall[~getattr(timed, "broke", count.astype(bool))]
    each = kept[-3:] / (made[-3:] if hasattr(made, "shape") else made)
    assert each == pytest.approx(KERNELS * SECONDS, rel=0.05)


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
    monkeypatch.setattr(Host, "look", lambda self, *given: journal.append("look") or look(self, *given))
    todo = everything.parts("fake:cuda", True)
    assert len(list(everything.run(todo, "fake:cuda", 1.0, Outputs(quiet=True)))) == len(todo)
    assert "look" in journal and "look" not in journal[journal.index("names") if "names" in journal else len(journal) :]


def test_the_front_door_comes_first() -> None:
    """Of all that a GPU is asked, and element-wise questions come after it."""
    found = [part.name for part in everything.parts("fake:cuda")]
    assert found[0] == "gemm" and found.index("elementwise") > found.index("launch")
