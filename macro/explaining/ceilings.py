"""Measurement of this machine's ceilings with a program's threads: FLOP/s by type, memory bandwidth."""

from __future__ import annotations

import time

from kernels.ops.fma.problem import NUMBERS, Fma
from kernels.ops.mma import Mma
from macro.explaining.breakdown import Ceilings
from macro.timing.peak import UNIT, Peak
from reports.units import counted, scaled

LOOKS = 3
PRODUCT = 5e-3  # seconds of a burst
COARSE = 0.1  # seconds of all bursts of an instruction for another type than float32
TYPES = {"float64": "fp64", "bfloat16": "bf16", "float16": "fp16", "int8": "int8"}  # and their names in kernels/
BUDGET = "3s"
# Ratio of bytes moved to nominal bytes: a triad also fetches the cache lines that it writes (write-allocate).
MOVED = {"read": 1.0, "triad": 4 / 3}
TIMES = 4  # size of the traffic's operands over that of the usable last-level cache
NEAR = 0.95  # of threads × one thread's rate: if all threads together reach less, a note explains it


def measured(threads: int) -> Ceilings:
    """Measure the ceilings with so many threads; takes a few seconds and needs an otherwise idle machine."""
    from kernels.devices import open_device
    from kernels.devices.cpu import physical_cores

    limits = open_device("cpu").limits()
    count, cores = min(threads, limits.cores), min(threads, physical_cores())
    flops, why = of_threads(_single(1), _single(count) if count > 1 else None, count, cores)
    typed = {
        name: of_threads(_typed(name, 1), _typed(name, count) if count > 1 else None, count, cores) for name in TYPES
    }
    notes = [f"{threads} threads run on {count} processors: the ceilings are those of {count}"] * (threads > count)
    cache = limits.usable_cache
    return Ceilings(flops, _traffic(count, TIMES * cache), cache, (*notes, *filter(None, [why])), typed)


def of_threads(alone: float | None, together: float | None, threads: int, cores: int) -> tuple[float | None, str]:
    """Return the ceiling of `threads` threads on `cores` cores, and a note if they scale badly, else "".

    `alone` and `together` are the rates of one thread and of all; a rate that other load slows is no ceiling."""
    if alone is None or threads == 1:
        return alone, ""
    most, times = alone * cores, f"{threads} × one thread's {scaled(alone, 'FLOP/s')}"
    if together is None:
        return most, f"{threads} threads could not be pinned to separate cores: the ceiling is {times}"
    if together >= NEAR * alone * threads:
        return max(together, most), ""
    why = f"{threads} threads reached only {scaled(together, 'FLOP/s')} of {times}: "
    if cores < threads:
        return max(together, most), f"{why}they share {counted(cores, 'physical core')}"
    return most, f"{why}other load, or a lower clock with all cores busy; the ceiling is {times}"


def _single(threads: int) -> float | None:
    """Measure FLOP/s of float32 multiply-adds; None if so many threads cannot be started."""
    peak = Peak(threads)
    looks = [took for _ in range(LOOKS) if peak.threads == threads and (took := peak.look(PRODUCT))]
    return UNIT * threads / min(looks) if looks else None


def _typed(name: str, threads: int) -> float | None:
    """Measure FLOP/s of a type's fastest instruction; None if the processor has none."""
    from kernels.devices import kind_of, open_device
    from kernels.ops.fma.fastest import bound, peak_of, seconds
    from micro.measuring.ceilings import coarse_peaks

    limits, rates = open_device("cpu").limits(), []
    isas = [isa for isa, of in NUMBERS.items() if of == TYPES[name] and isa in limits.features]
    problems: list[Fma | Mma] = [peak_of(isa, processors=threads) for isa in isas]
    for problem in problems + coarse_peaks(TYPES[name], kind_of("cpu"), limits, threads):
        if launch := bound(problem):
            end, least = time.perf_counter() + COARSE, float("inf")
            while time.perf_counter() < end:
                least = min(least, seconds(launch.call, time.perf_counter))
            rates.append(problem.flops * launch.uses / least)
    return max(rates, default=None)


def _traffic(threads: int, size: int) -> float | None:
    """Measure memory bandwidth in bytes a second, the faster of read and triad; None if not measurable."""
    import micro
    from kernels.errors import SuiteError

    try:
        plan = micro.plan(
            "stream", kind=list(MOVED), size=min(max(size, 64 << 20), 256 << 20), threads=threads, budget=BUDGET
        )
        run = micro.measure(plan)
    except SuiteError:
        return None
    timed = [r for r in run.results if r.role == "measured" and r.bytes_per_second]
    rates = [r.bytes_per_second * MOVED[r.problem["kind"]] for r in timed if r.bytes_per_second]
    return max(rates, default=None)
