"""NVML's readings of a GPU: clocks, temperature, power, and time throttled by temperature or power.

Readings that a card, a driver or a binding does not report are left out."""

from __future__ import annotations

import ctypes
import importlib
from dataclasses import dataclass
from typing import Any

from kernels.errors import Unavailable, summary
from kernels.libs import cuda
from kernels.pace import Pace

LIBRARY = "libnvidia-ml.so.1"
INSTALL = "pip install nvidia-ml-py"
SM, MEMORY = 1, 2  # nvmlClockType_t
DIE = 0  # nvmlTemperatureSensors_t
POLICIES = {"power": 0, "thermal": 1}  # nvmlPerfPolicyType_t
# Bytes/s of a PCI Express lane, each way, by generation, less encoding: 8b/10b, 128b/130b, then 242 of 256 in a flit.
LANES = {1: 0.25e9, 2: 0.5e9, 3: 1e9 * 128 / 130, 4: 2e9 * 128 / 130, 5: 4e9 * 128 / 130, 6: 8e9 * 242 / 256}
COMPUTE_MODES = ("default", "exclusive thread", "prohibited", "exclusive process")


def missing() -> str | None:
    """Return why no GPU can be queried here, or None if it can; import nothing."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return f"no NVIDIA driver: {LIBRARY} not found"
    return cuda.package("pynvml", INSTALL)


@dataclass(frozen=True)
class Gpu:
    """One GPU, queried through the module pynvml or a test's stand-in."""

    api: Any
    handle: Any

    def state(self) -> dict[str, float]:
        """Return momentary readings: clocks in MHz, temperature of the die, power drawn."""
        milliwatts = self._ask("nvmlDeviceGetPowerUsage")
        return _present(
            sm_megahertz=_float(self._ask("nvmlDeviceGetClockInfo", SM)),
            memory_megahertz=_float(self._ask("nvmlDeviceGetClockInfo", MEMORY)),
            celsius=_float(self._ask("nvmlDeviceGetTemperature nvmlDeviceGetTemperatureV", DIE)),
            watts=_float(milliwatts, 1e-3),
        )

    def pace(self) -> Pace:
        """Return the clock of the multiprocessors, and the seconds for which it was throttled so far.

        Makes three NVML calls, each up to 20 ms under some hypervisors. The card counts throttled time, which shows
        throttling between two readings; a throttle reason read afterwards, when the card idles, would miss it."""
        counted = {cause: self._ask("nvmlDeviceGetViolationStatus", policy) for cause, policy in POLICIES.items()}
        slowed = {cause: status.violationTime * 1e-9 for cause, status in counted.items() if status is not None}
        return Pace(_float(self._ask("nvmlDeviceGetClockInfo", SM)), slowed)

    def facts(self) -> dict[str, Any]:
        """Return the facts of a run's record: driver, limits, PCIe link now and at best, compute mode, ECC.

        The PCIe link may report a narrower and slower state while the card is idle."""
        mode, ecc = self._ask("nvmlDeviceGetComputeMode"), self._ask("nvmlDeviceGetEccMode")
        return _present(
            driver=_text(_answer(self.api, "nvmlSystemGetDriverVersion")),
            watts_limit=_float(self._ask("nvmlDeviceGetEnforcedPowerLimit"), 1e-3),
            sm_megahertz_max=_float(self._ask("nvmlDeviceGetMaxClockInfo", SM)),
            memory_megahertz_max=_float(self._ask("nvmlDeviceGetMaxClockInfo", MEMORY)),
            pcie_generation=self._ask("nvmlDeviceGetCurrPcieLinkGeneration"),
            pcie_generation_max=self._ask("nvmlDeviceGetMaxPcieLinkGeneration"),
            pcie_width=self._ask("nvmlDeviceGetCurrPcieLinkWidth"),
            pcie_width_max=self._ask("nvmlDeviceGetMaxPcieLinkWidth"),
            compute_mode=COMPUTE_MODES[mode] if mode in range(len(COMPUTE_MODES)) else mode,
            ecc=None if ecc is None else bool(ecc[0]),  # [current, after the next restart]
        )

    def link(self) -> float:
        """Return the peak bytes/s of the card's PCI Express link in each direction; 0 if not reported."""
        generation, width = self._ask("nvmlDeviceGetMaxPcieLinkGeneration"), self._ask("nvmlDeviceGetMaxPcieLinkWidth")
        return LANES.get(generation, 0.0) * (width or 0)

    def _ask(self, names: str, *arguments: int) -> Any:
        return _answer(self.api, names, self.handle, *arguments)


def open_gpu(bus_id: str) -> Gpu:
    """Return the GPU at a PCI address, such as "0000:17:00.0". Raises Unavailable.

    An index is ambiguous: CUDA numbers devices by CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, which NVML ignores."""
    if reason := cuda.package("pynvml", INSTALL):
        raise Unavailable(reason)
    try:
        api: Any = importlib.import_module("pynvml")
        api.nvmlInit()
        return Gpu(api, api.nvmlDeviceGetHandleByPciBusId(bus_id))
    except Exception as error:  # NVMLError, unnamed before the import, and those of a broken package
        raise Unavailable(f"NVML reports no GPU at {bus_id} ({summary(error)}): see nvidia-smi") from None


def _answer(api: Any, names: str, *arguments: Any) -> Any:
    """Return the result of the first function in `names` that works, or None if all fail.

    `names` lists the names that a function had in releases of the binding, separated by spaces."""
    for name in names.split():
        try:
            return getattr(api, name)(*arguments)
        except (AttributeError, api.NVMLError):
            continue
    return None


def _present(**facts: Any) -> dict[str, Any]:
    """Return the facts that are not None, which the driver reports."""
    return {name: value for name, value in facts.items() if value is not None}


def _float(value: int | None, unit: float = 1.0) -> float | None:
    return None if value is None else value * unit


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
