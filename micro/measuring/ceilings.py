"""Ceilings: peak multiply-adds and memory bandwidth, run in a contest's rounds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from kernels import devices
from kernels.catalog import bounding, find
from kernels.ops.fma import Fma
from kernels.ops.fma.fastest import fastest, peak_of
from kernels.ops.mma import Mma
from kernels.ops.mma.problem import CORE, GPU
from kernels.ops.stream import Stream
from kernels.setting import Setting
from micro.planning.contest import Case
from reports import stats, units

if TYPE_CHECKING:
    from kernels.devices.base import Limits
    from kernels.devices.kind import Kind
    from kernels.problem import Array, Problem
    from micro.measuring.rounds import Measurement

# By ceiling: its kind, "flops", "bytes" or "shown" (flops that a kernel may exceed), and its rate per second by round.
Bounds: TypeAlias = "dict[str, tuple[str, Array]]"
GATE = 1.05  # rate over ceiling: if its interval lies above, the work was not done
SMALLEST = 4096  # bytes: below it a read is all overhead
COVERED = 4  # size of a GPU's read, in caches, from which it measures memory, not its launch

# A GPU's multiply-adds take 655,000 clocks (kernels/ops/fma/fma.cu), 0.33 ms at 2 GHz. A start of 2 µs is 0.6 % of
# that, and was 2 % of 4096 steps.
STEPS = 16384
# A core's multiply-adds, by several threads: 0.3 ms at 3.5 GHz, of which a start of 1 µs is 0.3 %.
TEAM_STEPS = 8 * STEPS
AROUND = 4  # rounds on each side among which a ceiling of several threads takes its fastest sample
# Tensor cores: mma.sync takes 0.5 ms and wgmma 0.6 ms on an H100 at 1.8 GHz, of which writing the sums is 1 %.
TENSOR_STEPS = {"mma": 8192, "wgmma": 4096}
CORE_STEPS = 8192  # of a core's: 16 chains, one or two a cycle: 20 to 40 µs
COARSE = ("tf32", "bf16", "fp16")  # types that tensor cores multiply here
# x86 without an instruction for these types multiplies them as single precision. int8 differs: three instructions of
# AVX2 multiply and add 32 bytes, but 24 floats. Instructions of other processors are not implemented.
WIDENED = ("tf32", "bf16", "fp16")


def cases(measured: Sequence[Case], limits: Mapping[str, Limits]) -> list[Case]:
    """Build ceilings for each device and number of threads: FMA peaks, low-precision products, reads.

    The products have the measured precisions, the reads the size of each working set."""
    ceilings: dict[Case, None] = {}
    for device, threads in dict.fromkeys((case.setting.device, case.setting.threads) for case in measured):
        alike = [case for case in measured if (case.setting.device, case.setting.threads) == (device, threads)]
        bounded = [case for case in alike if not _elsewhere(case)]
        if not bounded:
            continue
        kind = devices.kind_of(device)
        many = threads if threads <= limits[device].cores else 1  # each on a separate core
        sizes = dict.fromkeys(_working_set(case.problem) for case in bounded)
        coarse = dict.fromkeys(_computes(case) for case in bounded)
        problems: list[Problem] = [
            *([peak(kind, limits[device], many)] if "fma" in kind.ceilings else []),
            *(x for dtype in coarse for x in coarse_peaks(dtype, kind, limits[device], many)),
            *(Stream("read", size) for size in sizes),
        ]
        bounds = [problem for problem in problems if problem.op in kind.ceilings]
        for problem in bounds:
            # In a cache a core may read faster by narrower vectors.
            asked = [case.setting.isa for case in bounded if case.setting.isa in kind.isas()]
            sets = dict.fromkeys(("default", *asked)) if problem.op == "stream" else ("default",)
            settings = [Setting(many, isa=isa, device=device) for isa in sets]
            ceilings |= {Case(problem, bounding(problem.op, kind.kernels), x, "ceiling"): None for x in settings}
    return list(ceilings)


def title(ceiling: Case) -> str:
    """Format a ceiling: `FMA avx2, 2 threads`, `tensor cores bf16, wgmma`, `read 4 MiB`."""
    bound: Any = ceiling.problem
    several = f", {ceiling.setting.threads} threads" if ceiling.setting.threads > 1 else ""
    if bound.op == "fma":
        return f"FMA {bound.isa}{several}"
    if bound.op == "mma":
        return f"{'tensor cores ' if bound.unit in GPU else ''}{bound.dtype}, {bound.unit}{several}"
    isa = f", {ceiling.setting.isa}" if ceiling.setting.isa != "default" else ""
    return f"read {units.binary(bound.size)}{several}{isa}"


def _elsewhere(case: Case) -> bool:
    """Report whether neither the device's arithmetic nor its memory bounds the case.

    Such a case is work of the caller, stays within multiprocessors, or crosses the link to the host."""
    problem = case.problem
    for_its_caller = problem.on_host and devices.kind_of(case.setting.device).own_clock
    return for_its_caller or problem.within or find(problem.op, case.variant).link


def peak(kind: Kind, limits: Limits, threads: int = 1) -> Fma:
    """Return the fastest multiply-adds in registers, on `threads` cores or all multiprocessors.

    Several threads have more steps each, so that starting threads takes a small share."""
    sets = kind.isas()
    if kind.undivided:
        return peak_of(sets[-1], STEPS, limits.cores)
    return peak_of(sets[-1] if kind.scripted else fastest(sets), STEPS if threads == 1 else TEAM_STEPS, threads)


def tensor_peaks(dtype: str, limits: Limits) -> list[Mma]:
    """Return a product for each tensor instruction of the device; the shapes of mma.sync require sm_80."""
    units = [unit for unit in TENSOR_STEPS if unit == "mma" or unit in limits.features]
    return [Mma(dtype, unit, TENSOR_STEPS[unit], limits.cores) for unit in units]


def coarse_peaks(dtype: str, kind: Kind, limits: Limits, threads: int = 1) -> list[Mma]:
    """Return products of a low-precision type, by each instruction that the device has for it."""
    if kind.undivided:
        return tensor_peaks(dtype, limits) if dtype in COARSE else []
    return [Mma(dtype, unit, CORE_STEPS, threads) for unit in CORE.get(dtype, ()) if unit in limits.features]


def doubtful(case: Case) -> bool:
    """Report whether a ceiling must be checked before it bounds anything.

    Kernels of tensor cores and low precision run on few devices, and none was tested on all: a wrong kernel must not
    bound others, and a kernel that does not compile must not cost a contest."""
    return case.problem.op == "mma"


def _computes(case: Case) -> str:
    return find(case.problem.op, case.variant).computes(case.problem)


def _working_set(problem: Problem) -> int:
    return max(SMALLEST, problem.footprint // 64 * 64)


@dataclass(frozen=True)
class Share:
    """A case's share of its nearest ceiling, or the reason why its time is impossible."""

    percent: float | None  # by nominal or executed work; None without work or ceiling
    name: str | None  # of the ceiling
    refusal: str | None  # why the case cannot have done its work; None if it can


def share(measurement: Measurement, all_cases: Sequence[Case], index: int, limits: Mapping[str, Limits]) -> Share:
    """Return a case's share of the bound nearest to its time, in the same rounds."""
    import numpy as np

    case = all_cases[index]
    problem: Any = case.problem
    times: Any = measurement.times[measurement.timed]
    if _elsewhere(case):
        return _of_link(case, limits[case.setting.device].link, times[:, index])
    bounds = _bounds(case, all_cases, measurement, limits[case.setting.device].features)
    if not bounds:
        return Share(None, None, None)
    times_done = find(problem.op, case.variant).times
    flops, brought = times_done * problem.flops, times_done * _brought(problem)
    if problem.by_executed:  # a stage of a call moves only some of the operands' bytes, or none
        work = find(problem.op, case.variant).executed(problem)
        flops, brought = work.flops, min(brought, work.bytes)
    nominal = {name: (brought if kind == "bytes" else flops) / rate for name, (kind, rate) in bounds.items()}
    refusal = _refusal(_least(case, bounds, limits), times[:, index])
    nearest = _longest(nominal)
    if nearest is None:
        return Share(None, None, None)
    if bounds[nearest][0] == "bytes" and not _of_memory(case, limits):
        return Share(None, None, refusal)  # the bandwidth of a GPU's caches is not known
    if len(bounds) == 1 and problem.flops:
        return Share(None, None, refusal)  # no ceiling of its arithmetic is known
    return Share(100 * float(np.median(nominal[nearest] / times[:, index])), nearest, refusal)


def _of_link(case: Case, rate: float, times: Array) -> Share:
    """Return a case's share of the host link's rate, which both directions reach at once."""
    import numpy as np

    if not (rate and find(case.problem.op, case.variant).link):
        return Share(None, None, None)
    least = np.full(len(times), sum(x.nbytes for x in case.problem.operands() if x.role == "in") / rate)
    return Share(100 * float(np.median(least / times)), f"link {units.scaled(rate, 'B/s')}", None)  # NVLink may beat it


def _least(case: Case, bounds: Bounds, limits: Mapping[str, Limits]) -> dict[str, Array]:
    """Least seconds of the executed work in each round, by each bound that no kernel can exceed.

    Only reads count: writes may bypass the caches, and some instructions write a line without fetching it."""
    problem: Any = case.problem
    work = find(problem.op, case.variant).executed(problem)
    inputs = sum(x.nbytes for x in problem.operands() if x.role == "in")
    moved = inputs * (work.bytes / problem.bytes if problem.bytes else 1.0)
    return {
        name: (moved if kind == "bytes" else work.flops) / rate
        for name, (kind, rate) in bounds.items()
        if kind != "shown" and (kind != "bytes" or _of_memory(case, limits))
    }


def _longest(seconds: Mapping[str, Array]) -> str | None:
    """Return the name of the bound with the largest median time; None if no bound takes time."""
    import numpy as np

    medians = {name: float(np.median(rounds)) for name, rounds in seconds.items()}
    longest = max(medians, key=lambda name: medians[name], default=None)
    return longest if longest is not None and medians[longest] else None


def _brought(problem: Problem) -> float:
    """Return the nominal bytes fetched: inputs, and outputs, whose cache lines are fetched before a write.

    An operand both read and written counts once. If the problem has memory beside operands, only inputs count."""
    sizes = {role: sum(x.nbytes for x in problem.operands() if x.role == role) for role in ("in", "inout", "out")}
    total = sum(sizes.values())
    if problem.footprint > total:
        return float(sizes["in"])
    return problem.bytes * total / (total + sizes["inout"]) if total else 0.0


def took(measurement: Measurement, all_cases: Sequence[Case], index: int) -> Array:
    """Seconds of a ceiling in each timed round, without time lost to other processes.

    With several threads no clock measures that loss finely: there the fastest of the neighboring samples counts, as a
    stall of one thread stalls all threads, and makes no sample faster."""
    import numpy as np

    if all_cases[index].setting.threads == 1:
        return np.asarray(measurement.undisturbed[measurement.timed][:, index])
    wall: Any = measurement.look.wall[measurement.timed][:, index]
    least: Array = np.array([wall[max(0, i - AROUND) : i + AROUND + 1].min() for i in range(len(wall))])
    return least


def _bounds(case: Case, all_cases: Sequence[Case], measurement: Measurement, features: Collection[str]) -> Bounds:
    """Return a case's bounds by name: FLOP/s or bytes/s of each round, on its number of threads.

    The fastest instruction for a low-precision type counts, and the fastest instruction set that reads. A type without
    instructions is bounded by single-precision multiply-adds."""
    import numpy as np

    bounds: Bounds = {}
    coarse: Bounds = {}
    single: Bounds = {}
    reads: Bounds = {}
    precision, size, ceilings = _computes(case), _working_set(case.problem), _of(case, all_cases)
    units = {x.problem.unit for _, x in ceilings if isinstance(x.problem, Mma)}
    missing = any(unit in features and unit not in units for unit in CORE.get(precision, ()))
    for i, other in ceilings:
        bound: Any = other.problem
        times = case.setting.threads // other.setting.threads
        name = title(other) + (f", {times} × 1 thread" if times > 1 else "")
        share = times / took(measurement, all_cases, i)
        if bound.op == "fma" and (bound.isa != "native" or precision == "fp32"):
            single[name] = ("flops", bound.flops * share)
        elif bound.op == "mma" and bound.dtype == precision:
            coarse[name] = ("flops" if _certain(bound, case) and not missing else "shown", bound.flops * share)
        elif bound.op == "stream" and bound.size == size:
            reads[name] = ("bytes", bound.bytes * share)
    for of_one_kind in (reads, coarse):
        if of_one_kind:
            quickest = max(of_one_kind, key=lambda name: float(np.median(of_one_kind[name][1])))
            bounds[quickest] = of_one_kind[quickest]
    if precision == "fp32" and not coarse:
        bounds |= single
    elif precision in WIDENED and not coarse and not devices.kind_of(case.setting.device).undivided:
        bounds |= {f"{name} in place of {precision}": ("shown", rates) for name, (_, rates) in single.items()}
    return bounds


def _of(case: Case, all_cases: Sequence[Case]) -> list[tuple[int, Case]]:
    """Return (index, ceiling) for the case's device and number of threads, else for one thread.

    Several threads together may not reach that multiple of a one-thread ceiling."""
    here = [(i, x) for i, x in enumerate(all_cases) if x.role == "ceiling" and x.setting.device == case.setting.device]
    alike = [(i, x) for i, x in here if x.setting.threads == case.setting.threads]
    return alike or [(i, x) for i, x in here if x.setting.threads == 1]


def _certain(bound: Mma, case: Case) -> bool:
    """Report whether no kernel can exceed a ceiling of products.

    Hopper's tensor cores reach their peak by wgmma, six tenths of it by mma.sync; instructions of later devices are not
    implemented. On a CPU all instructions are measured; the caller checks that none is missing. Zeros and other easy
    numbers run at a higher clock than the ceiling."""
    return bound.unit != "mma" and case.setting.data == "normal"


def _of_memory(case: Case, limits: Mapping[str, Limits]) -> bool:
    """Report whether a read of this size measures memory: a small read on a GPU measures the launch."""
    here = limits[case.setting.device]
    cache = max(here.caches, default=here.usable_cache)
    return not devices.kind_of(case.setting.device).undivided or case.problem.footprint > COVERED * cache


def _refusal(least: Mapping[str, Array], times: Array) -> str | None:
    """Return a message on a case too fast to have done its work; None if its bounds allow its times."""
    import numpy as np

    longest = _longest(least)
    if longest is None:
        return None
    interval = stats.interval(np.log(np.max(list(least.values()), axis=0) / times), 0.05)
    if interval is not None and interval.low > GATE:
        return f"{interval.center:.2f} times its ceiling ({longest}): the kernel cannot have done this work"
    return None


def memory_bound(problem: Problem, last_level: int) -> bool:
    """Report whether memory likely bounds the problem: out of cache, under 8 operations per byte."""
    return problem.footprint > last_level and problem.flops < 8 * problem.bytes
