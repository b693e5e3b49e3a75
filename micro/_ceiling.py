"""What nothing can beat: the kernels that bound a contest, run in its rounds, and what they say of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernels.ops.fma import Fma
from kernels.ops.stream import Stream
from kernels.variant import find
from micro._plan import Case
from reports import stats, units

if TYPE_CHECKING:
    from kernels.problem import Array, Problem
    from micro._measure import Measurement

GATE = 1.05  # the lower end of rate over ceiling above it is no measurement of this work
SMALLEST = 4096  # bytes: below it a read is all overhead


def cases(measured: Sequence[Case]) -> list[Case]:
    """Multiply-adds in the widest instructions here, and a read of each working set."""
    from kernels.devices.cpu import instruction_sets

    setting = measured[0].setting
    plain = type(setting)(threads=setting.threads)
    sizes = dict.fromkeys(max(SMALLEST, case.problem.footprint // 64 * 64) for case in measured)
    found = [Case(Fma(instruction_sets()[-1]), "c", plain, "ceiling")]
    found += [Case(Stream("read", size), "c", plain, "ceiling") for size in sizes]
    return found


@dataclass(frozen=True)
class Share:
    """Of a case's own ceiling: per cent by nominal work, the ceiling's name, and its refusal if any. Where
    there is no work there is no ceiling."""

    percent: float | None
    name: str | None
    refusal: str | None


def share(measurement: Measurement, all_cases: Sequence[Case], index: int) -> Share:
    """How near a case came to the nearer of its two bounds, in the same rounds."""
    import numpy as np

    case = all_cases[index]
    times: Any = measurement.times[measurement.accepted]
    problem: Any = case.problem
    threads = case.setting.threads  # the ceilings' kernels run on one
    size = max(SMALLEST, problem.footprint // 64 * 64)
    flops = read = None
    for i, other in enumerate(all_cases):
        bound: Any = other.problem
        if other.role == "ceiling" and bound.op == "fma":
            flops = bound.flops * threads / times[:, i]
            isa = bound.isa
        elif other.role == "ceiling" and bound.size == size:
            read = bound.bytes * threads / times[:, i]
    assert flops is not None and read is not None
    inputs = sum(x.nbytes for x in problem.operands() if x.role == "in")  # writes may pass beside reads
    if not problem.flops and not inputs:
        return Share(None, None, None)
    work = find(problem.op, case.variant).executed(problem)
    nominal = np.maximum(problem.flops / flops, inputs / read)
    executed = np.maximum(work.flops / flops, inputs * (work.bytes / problem.bytes) / read)
    by_flops = np.median(problem.flops / flops) >= np.median(inputs / read)
    name = f"FMA {isa}" if by_flops else f"read {units.binary(size)}"
    return Share(
        100 * float(np.median(nominal / times[:, index])), name, _refusal(executed / times[:, index], name)
    )


def _refusal(rate: Array, name: str) -> str | None:
    import numpy as np

    interval = stats.interval(np.log(rate), 0.05)
    if interval is not None and interval.low > GATE:
        return f"{interval.center:.2f} times its ceiling ({name}): it cannot have done this work"
    return None


def memory_bound(problem: Problem, last_level: int) -> bool:
    """Whether main memory, rather than arithmetic, is likely to bound it: outside the cache, and fewer
    than eight operations a byte."""
    return problem.footprint > last_level and problem.flops < 8 * problem.bytes
