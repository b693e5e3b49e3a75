"""Peak rate of multiply-adds of this machine by its fastest instructions: the ceiling of a step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

from kernels.devices.cpu import instruction_sets
from kernels.ops.fma import Fma
from kernels.ops.fma.fastest import fastest, peak_of, prepared, seconds

UNIT = 1e9  # FLOP
LOOK = 0.1  # seconds of all bursts of a measurement, about
FEWEST, MOST = 5, 50  # bursts of a measurement
SHORTEST, LONGEST, TOGETHER = 1e-3, 0.1, 5e-3  # limits of a burst's seconds; the last: longest of several threads
STEPS = 1 << 17  # loop steps of the calibration burst: 0.3 ms


class Peak:
    """The FMA kernel on `threads` threads (or on 1 if cores are too few), measured in every round."""

    def __init__(self, threads: int = 1) -> None:
        isa = fastest(instruction_sets())
        tries = dict.fromkeys((threads, 1))
        calls = {count: call for count in tries if (call := prepared(peak_of(isa, STEPS, count)))}
        self.threads = next(iter(calls), 1)
        self._problem, self._call = peak_of(isa, STEPS, self.threads), calls.get(self.threads)
        self._clock = time.thread_time if self.threads == 1 else time.perf_counter

    def look(self, product: float) -> float | None:
        """Return seconds for UNIT FLOP per thread, in bursts of about `product` seconds; None: no kernel."""
        if self._call is None:
            return None
        self._call()
        wanted = min(max(product, SHORTEST), LONGEST if self.threads == 1 else TOGETHER)
        problem, call = self._burst(wanted / seconds(self._call, self._clock))
        count = round(min(max(LOOK / wanted, FEWEST), MOST))
        bursts = [seconds(call, self._clock) for _ in range(count)]
        took = median(bursts) if self.threads == 1 else min(bursts)
        return took * UNIT * self.threads / problem.flops

    def _burst(self, times: float) -> tuple[Fma, Callable[[], object]]:
        """Return a burst `times` as long as the calibration burst, as problem and call."""
        problem = replace(self._problem, steps=STEPS * max(1, round(times)))
        call = prepared(problem)
        assert call is not None  # it is the same kernel
        return problem, call
