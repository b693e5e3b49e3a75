"""pynvml without a driver: it answers each question by a table."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

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
