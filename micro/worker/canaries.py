"""Canaries: kernels of known cost, whose times show when the host itself is slow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernels.catalog import bounding, find
from kernels.ops.fma import Fma
from kernels.ops.stream import Stream
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.problem import Problem

SMALL = 4 << 20
# Ten chains in each of a multiprocessor's 512 threads are 160 warp instructions per step, four per clock (sm_90,
# sm_100), two on sm_80: 20,480 clocks, 10 µs at 2 GHz; 41,000 on sm_80.
WHOLE_STEPS = 512


def canaries(device: Device) -> list[tuple[Problem, Variant[Any]]]:
    """Return multiply-adds of 10 to 30 µs, a read of 4 MiB, and a read of four last-level caches.

    Operations that are no ceiling on this device are left out: their cost is unknown."""
    limits, kind = device.limits(), device.kind
    problems: list[Problem] = [Stream("read", SMALL), Stream("read", 4 * limits.usable_cache)]
    if "fma" in kind.ceilings:
        fma = Fma(kind.isas()[-1])
        problems.insert(0, replace(fma, steps=WHOLE_STEPS, processors=limits.cores) if kind.undivided else fma)
    return [
        (problem, device.adopt(find(problem.op, bounding(problem.op, kind.kernels))))
        for problem in problems
        if problem.op in kind.ceilings
    ]
