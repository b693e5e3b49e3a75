"""Search for the instruction set that multiplies and adds fastest on this processor.

The widest set may lower the clock or have half as many units.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from kernels.catalog import find
from kernels.devices.cpu import open_device
from kernels.errors import SuiteError
from kernels.launch import Launch
from kernels.ops.fma.problem import PEAK, Fma
from kernels.ops.mma import Mma
from kernels.setting import Setting

FUSED = ("avx2", "avx512")  # x86 sets with a fused multiply-add; sets without it are slower than avx2
ROUNDS = 9
QUIET = ROUNDS // 4  # index into a set's times, fastest first: interruptions only make calls slower
BETTER = 1.02  # least speedup over a wider set that is not noise


@functools.cache
def fastest(sets: tuple[str, ...]) -> str:
    """Return the fastest of `sets` (narrowest first), measured once per process in alternating rounds.

    The clock is the thread's processor time.
    """
    contenders = [name for name in sets if name in FUSED] or [sets[-1]]
    calls = {name: call for name in contenders if (call := prepared(peak_of(name)))}
    if len(contenders) == 1 or len(calls) < len(contenders):
        return contenders[-1]
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()  # untimed: the previous set may have lowered the clock
            times[name].append(seconds(call))
    return chosen({name: peak_of(name).flops / sorted(took)[QUIET] for name, took in times.items()})


def chosen(rates: dict[str, float]) -> str:
    """Return the widest set of `rates` (narrowest first), unless another is faster by a factor of BETTER."""
    best = list(rates)[-1]
    for name in list(rates)[-2::-1]:
        if rates[name] > BETTER * rates[best]:
            best = name
    return best


def peak_of(isa: str, steps: int = 16384, processors: int = 1) -> Fma:
    """Return the problem that reaches the peak of an instruction set, with PEAK independent chains."""
    return Fma(isa, steps, PEAK[isa], processors)


def prepared(problem: Fma) -> Callable[[], object] | None:
    """Return a call of `problem` by one thread per core; None without a compiler or enough cores."""
    launch = bound(problem)
    return None if launch is None else launch.call


def bound(problem: Fma | Mma) -> Launch | None:
    """Bind a peak kernel to its operands; None if it does not compile or the cores are too few."""
    device = open_device()
    try:
        bind = find(problem.op, "c").prepare(problem, device, Setting(problem.processors))
    except SuiteError:
        return None
    blocks = [device.allocate(x.nbytes) for x in problem.operands()]
    for block in blocks:
        device.scatter(block, 1)
    return bind([device.view(b, 0, x) for b, x in zip(blocks, problem.operands(), strict=True)])


def seconds(call: Callable[[], object], clock: Callable[[], float] = time.thread_time) -> float:
    """Return the seconds of a call on `clock`, by default this thread's processor time."""
    start = clock()
    call()
    return max(clock() - start, 1e-9)
