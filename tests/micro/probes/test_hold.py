"""The hold of a stream, on a queue that takes as many launches as it is told and then makes its caller wait."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kernels.devices.cuda
from kernels.devices.cuda import Cuda
from micro.probes import hold
from tests.simulated import fake_gpu, launcher
from tests.simulated.fake_cupy import FakeCupy
from tests.simulated.fake_cupy_objects import CLOCK

DEPTH = 20  # launches and marks behind the holding kernel


@pytest.fixture
def device(here: pytest.MonkeyPatch, tmp_path: Path) -> Cuda:
    if reason := launcher.missing():
        pytest.skip(reason)
    fake = FakeCupy()
    fake.depth = DEPTH + 1  # and the holding kernel itself
    fake_gpu.install(here, fake, tmp_path)
    made = Cuda(0, fake)
    here.setattr(kernels.devices.cuda, "open_device", lambda index: made)
    here.setattr(hold, "time", SimpleNamespace(perf_counter=lambda: fake.host))
    return made


def test_a_hold_that_breaks_is_seen(device: Cuda, here: pytest.MonkeyPatch) -> None:
    """Two marks and 18 launches find room."""
    here.setattr(hold, "COUNTS", (5, DEPTH - 2, DEPTH - 1, 3 * DEPTH))
    found = hold.ask()
    assert (found["held"], found["broke"]) == ([5, DEPTH - 2], [DEPTH - 1, 3 * DEPTH])
    assert found[f"{DEPTH - 2} launches"]["first call that waited"] is None
    assert found[f"{DEPTH - 1} launches"]["first call that waited"] == DEPTH  # the mark behind them
    assert found[f"{3 * DEPTH} launches"]["first call that waited"] == DEPTH
    patience = pytest.approx(kernels.devices.cuda.PATIENCE / CLOCK, rel=0.01)
    broken = found[f"{3 * DEPTH} launches"]
    assert broken["its s"] == patience and broken["enqueue s"] == patience


def test_each_launch_is_of_the_empty_kernel(device: Cuda) -> None:
    empty = hold.launched(device)
    told = hold.visit(device, empty.call, 3)
    assert told["device us a call"] == pytest.approx(2.0)  # what a launch takes of the fake's clock
    assert [name for name, _, _ in device.cp.started] == ["launch_empty"] * 3


def test_a_stream_is_not_left_held(device: Cuda) -> None:
    """Also by a launch that fails."""
    with pytest.raises(ZeroDivisionError):
        hold.visit(device, lambda: 1 // 0, 3)
    device.sync()
    assert device.cp.open


def test_a_visit_that_fails_neither_held_nor_broke(device: Cuda, here: pytest.MonkeyPatch) -> None:
    here.setattr(hold, "COUNTS", (2, 4))
    visit: Any = hold.visit

    def sometimes(device: Cuda, call: Any, count: int) -> Any:
        return visit(device, call if count != 4 else lambda: 1 // 0, count)

    here.setattr(hold, "visit", sometimes)
    found = hold.ask()
    assert (found["held"], found["broke"]) == ([2], [])
    assert found["4 launches"]["error"].startswith("ZeroDivisionError")


def test_a_graph_is_one_entry_where_it_is(device: Cuda, here: pytest.MonkeyPatch) -> None:
    """As on the fake, until its nodes are entries of their own."""
    here.setattr(hold, "COUNTS", (2, 3 * DEPTH))
    assert hold.ask()["a graph is one entry"] is True
    here.setattr(device, "captured", lambda launch, count: lambda: [launch.call() for _ in range(count)])
    assert hold.ask()["a graph is one entry"] is False
