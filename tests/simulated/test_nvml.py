"""The questions to NVML against a stand-in of pynvml that answers some of them."""

from __future__ import annotations

import ctypes
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kernels.errors import Unavailable
from kernels.libs import cuda, nvml
from kernels.pace import Pace

BUS = "0000:17:00.0"


class NVMLError(Exception):
    def __init__(self, text: object = "Not Supported") -> None:
        super().__init__(text)


ANSWERS: dict[str, Any] = {
    "nvmlDeviceGetClockInfo": {1: 1980, 2: 3201},
    "nvmlDeviceGetTemperature": {0: 41},
    "nvmlDeviceGetPowerUsage": 123456,
    "nvmlDeviceGetEnforcedPowerLimit": 700000,
    "nvmlDeviceGetMaxClockInfo": {1: 1981, 2: 3202},
    "nvmlDeviceGetCurrPcieLinkGeneration": 1,
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetCurrPcieLinkWidth": 8,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetComputeMode": 3,
    "nvmlDeviceGetEccMode": [0, 1],
}


def pynvml(change: dict[str, Any] | None = None) -> Any:
    """The module pynvml; a question whose answer is None does not exist in it, one answered by an error raises it."""
    made: Any = ModuleType("pynvml")
    made.__spec__ = ModuleSpec("pynvml", None)
    made.NVMLError = NVMLError
    made.nvmlInit = lambda: None
    made.nvmlSystemGetDriverVersion = lambda: "580.65"

    def handle(bus: str) -> int:
        if bus != BUS:
            raise NVMLError
        return 7

    def asked(answer: Any) -> Any:
        def ask(handle: int, *which: int) -> Any:
            assert handle == 7
            if isinstance(answer, Exception):
                raise answer
            return answer[which[0]] if which else answer

        return ask

    made.nvmlDeviceGetHandleByPciBusId = handle
    for name, answer in (ANSWERS | (change or {})).items():
        if answer is not None:
            setattr(made, name, asked(answer))
    return made


VIOLATIONS = "nvmlDeviceGetViolationStatus"


def gpu(monkeypatch: pytest.MonkeyPatch, change: dict[str, Any] | None = None) -> nvml.Gpu:
    monkeypatch.setitem(sys.modules, "pynvml", pynvml(change))
    return nvml.open_gpu(BUS)


def test_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu(monkeypatch).state() == {
        "sm_megahertz": 1980.0,
        "memory_megahertz": 3201.0,
        "celsius": 41.0,
        "watts": pytest.approx(123.456),
    }


def test_its_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu(monkeypatch).facts() == {
        "driver": "580.65",
        "watts_limit": pytest.approx(700),
        "sm_megahertz_max": 1981.0,
        "memory_megahertz_max": 3202.0,
        "pcie_generation": 1,
        "pcie_generation_max": 5,
        "pcie_width": 8,
        "pcie_width_max": 16,
        "compute_mode": "exclusive process",
        "ecc": False,
    }


def test_the_link_is_told_by_its_best_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle one is slower and narrower."""
    assert gpu(monkeypatch).link() == pytest.approx(63.0e9, rel=1e-3)
    assert gpu(monkeypatch, {"nvmlDeviceGetMaxPcieLinkGeneration": 3}).link() == pytest.approx(15.75e9, rel=1e-3)
    for untold in ("nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth"):
        assert gpu(monkeypatch, {untold: None}).link() == 0.0


@pytest.mark.parametrize("untold", [None, NVMLError()], ids=["not there", "not supported"])
def test_what_is_not_told_is_left_out(monkeypatch: pytest.MonkeyPatch, untold: Any) -> None:
    """Each alone, then all."""
    whole = gpu(monkeypatch)
    for name in ANSWERS:
        one = gpu(monkeypatch, {name: untold})
        told = one.facts() | one.state()
        assert told.items() < (whole.facts() | whole.state()).items()
    none = gpu(monkeypatch, dict.fromkeys(ANSWERS, untold))
    assert (none.state(), none.facts()) == ({}, {"driver": "580.65"})
    assert none.pace() == Pace()


def test_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters in nanoseconds, of the causes that the card counts."""
    counted = {0: SimpleNamespace(violationTime=2_500_000_000), 1: SimpleNamespace(violationTime=0)}
    one = gpu(monkeypatch, {VIOLATIONS: counted})
    assert one.pace() == Pace(1980.0, {"power": 2.5, "thermal": 0.0})
    assert gpu(monkeypatch, {VIOLATIONS: NVMLError()}).pace() == Pace(1980.0)


def test_what_renamed_or_unknown_answers_become(monkeypatch: pytest.MonkeyPatch) -> None:
    one = gpu(
        monkeypatch,
        {"nvmlDeviceGetTemperature": None, "nvmlDeviceGetTemperatureV": {0: 50}, "nvmlDeviceGetComputeMode": 9},
    )
    one.api.nvmlSystemGetDriverVersion = lambda: b"470.1"
    assert (one.state()["celsius"], one.facts()["compute_mode"], one.facts()["driver"]) == (50.0, 9, "470.1")


def test_one_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    module = pynvml()
    monkeypatch.setitem(sys.modules, "pynvml", module)
    told = r"^NVML reports no GPU at 0000:99:00\.0 \(NVMLError: Not Supported\): see nvidia-smi$"
    with pytest.raises(Unavailable, match=told):
        nvml.open_gpu("0000:99:00.0")
    module.nvmlInit = None
    with pytest.raises(Unavailable, match="TypeError"):
        nvml.open_gpu(BUS)


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="pynvml is not installed: pip install nvidia-ml-py"):
        nvml.open_gpu(BUS)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: None)
    assert nvml.missing() == "pynvml is not installed: pip install nvidia-ml-py"
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: name)
    assert nvml.missing() is None

    def absent(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", absent)
    assert nvml.missing() == "no NVIDIA driver: libnvidia-ml.so.1 not found"
