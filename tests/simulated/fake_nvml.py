"""pynvml without a driver: one that answers each question by a table, one whose counters grow."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

from kernels.libs import nvml
from micro.probes import clocks

BUS = "0000:17:00.0"
HANDLE = 7


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


def module(change: dict[str, Any] | None = None) -> Any:
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


class Counting:
    """pynvml, of a card that does not tell the thermal violations; power is drawn while it is asked."""

    NVMLError = NVMLError

    def __init__(self) -> None:
        self.joules = 0

    def nvmlDeviceGetClockInfo(self, handle: int, which: int) -> int:
        return {nvml.SM: 1980, nvml.MEMORY: 2619}[which]

    def nvmlDeviceGetTemperature(self, handle: int, which: int) -> int:
        return 41

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        self.joules += 5
        return 123_000

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        return 0

    def nvmlDeviceGetViolationStatus(self, handle: int, policy: int) -> Any:
        assert handle == HANDLE
        if policy == clocks.THERMAL:
            raise NVMLError
        return SimpleNamespace(violationTime=1000 + self.joules)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        return self.joules

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[int]) -> list[Any]:
        (field,) = fields
        value = SimpleNamespace(uiVal=1, ullVal=field)
        return [SimpleNamespace(nvmlReturn=3 if field == 271 else 0, valueType=3, value=value)]
