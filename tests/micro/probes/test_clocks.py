"""Clocks and counters, asked of a driver and a device that are not there."""

from __future__ import annotations

import itertools
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import kernels.devices.cuda
from kernels.devices.cuda import Cuda
from kernels.libs import nvml
from micro.probes import clocks
from tests.simulated.fake_nvml import HANDLE, Counting


@pytest.fixture
def gpu() -> nvml.Gpu:
    return nvml.Gpu(Counting(), HANDLE)


@pytest.fixture(autouse=True)
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A millisecond passes with each look at the clock."""
    numbers = itertools.count()
    own = SimpleNamespace(perf_counter=lambda: next(numbers) * 1e-3, sleep=lambda seconds: None)
    monkeypatch.setattr(clocks, "time", own)


@pytest.fixture
def asked(here: pytest.MonkeyPatch, device: Cuda, gpu: nvml.Gpu) -> dict[str, Any]:
    """The whole probe on a small product."""
    runtime = SimpleNamespace(deviceGetPCIBusId=lambda index: "0000:17:00.0")
    module: Any = ModuleType("cupy")
    module.cuda = SimpleNamespace(runtime=runtime)
    here.setitem(sys.modules, "cupy", module)
    here.setattr(nvml, "open_gpu", lambda bus: gpu)
    here.setattr(kernels.devices.cuda, "open_device", lambda index: device)
    for name, value in {"SIZE": 32, "VISITS": 5, "SECONDS": 0.2, "BATCH": 4, "VISIT": 6e-6}.items():
        here.setattr(clocks, name, value)
    return clocks.ask()


def test_visits_and_what_goes_on(asked: dict[str, Any]) -> None:
    """A product takes 2 µs of the fake's clock."""
    assert asked["idle"] == {"sm_megahertz": 1980, "memory_megahertz": 2619, "celsius": 41, "watts": 123}
    assert (asked["visits"]["products"], asked["visits"]["us a product"]) == (3, 2.0)
    assert asked["visits"]["sm_megahertz"] == [1980, 1980, 1980]
    steady = asked["sustained"]
    assert steady["us, at first"] == steady["us, last third"] == 2.0
    assert len(steady["course"]) == clocks.POINTS and steady["course"][0]["watts"] == 123
    assert asked["sustained over burst"] == 1.0
    assert asked["us a question, at work"]["still"] is True  # questions take none of the fake's time


def test_what_grew(asked: dict[str, Any]) -> None:
    """Of the counters that there are; each look at the power costs 5 mJ here."""
    grew = asked["sustained"]["grew"]
    assert grew["millijoules"] == grew["power violation"] > 0 and grew["thermal"] == 0
    assert not {"thermal violation", "power brake"} & set(grew)
    assert clocks.grown({"a": 1, "b": 2, "c": "no"}, {"a": 3, "b": "lost", "c": "no"}) == {"a": 2}


def test_counters(gpu: nvml.Gpu) -> None:
    found = clocks.counters(gpu)
    assert found["thermal violation"] == "NVMLError: Not Supported"
    assert (found["power cap"], found["software thermal"]) == (74, 269)
    assert found["power brake"] == "NVMLError: 3"


def test_costs(gpu: nvml.Gpu) -> None:
    """A question that has no answer costs its line alone."""
    found = clocks.costs(gpu)
    assert found["nvmlDeviceGetViolationStatus 1"] == "NVMLError: Not Supported"
    answered = [x for name, x in found.items() if not name.endswith("Status 1")]
    assert len(answered) == 7 and all(x == {"median": 1000, "worst": 1000} for x in answered)


def test_a_course_that_changes(device: Cuda, here: pytest.MonkeyPatch, gpu: nvml.Gpu) -> None:
    """Products that take longer in the second half."""
    for name, value in {"SECONDS": 0.2, "BATCH": 4, "BEGINNING": 50e-6}.items():
        here.setattr(clocks, name, value)
    took = iter([2e-6] * 400)
    slow: Any = SimpleNamespace(capturable=False, call=lambda: device.cp.launch("x", next(took, 3e-6)))
    told = clocks.sustained(device, slow, gpu)
    assert (told["us, at first"], told["us, last third"]) == (2.0, 3.0)
