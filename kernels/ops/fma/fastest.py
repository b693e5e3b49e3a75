"""Which instruction set multiplies and adds fastest here: the widest one may be held to a lower clock, or have half as
many units."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kernels.catalog import find
from kernels.devices.cpu import open_device
from kernels.errors import SuiteError
from kernels.ops.fma.problem import PEAK, Fma
from kernels.setting import Setting

if TYPE_CHECKING:
    from kernels.launch import Launch
    from kernels.ops.mma import Mma

FUSED = ("avx2", "avx512")  # sets of x86 with a fused multiply-add; no other is as fast as the narrower of them
ROUNDS = 9
QUIET = ROUNDS // 4  # of a set's calls, fastest first: what stops a core for some of them makes none faster
BETTER = 1.02  # times as fast as a wider one a set must be, so that noise names none


@functools.cache
def fastest(sets: tuple[str, ...]) -> str:
    """Of these, narrowest first, that one; measured once a process, by its thread's processor time, in turns."""
    contenders = [name for name in sets if name in FUSED] or [sets[-1]]
    calls = {name: call for name in contenders if (call := prepared(peak_of(name)))}
    if len(contenders) == 1 or len(calls) < len(contenders):
        return contenders[-1]
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()  # the clock of what was before is none of its own
            times[name].append(seconds(call))
    return chosen({name: peak_of(name).flops / sorted(took)[QUIET] for name, took in times.items()})


def chosen(rates: dict[str, float]) -> str:
    """The widest of these, narrowest first, unless another is faster than noise makes it."""
    best = list(rates)[-1]
    for name in list(rates)[-2::-1]:
        if rates[name] > BETTER * rates[best]:
            best = name
    return best


def peak_of(isa: str, steps: int = 16384, processors: int = 1) -> Fma:
    """As many chains as it has registers for."""
    return Fma(isa, steps, PEAK[isa], processors)


def prepared(problem: Fma) -> Callable[[], object] | None:
    """A call of it, by a thread for each of its processors; None where it does not compile, or there are too few."""
    launch = bound(problem)
    return None if launch is None else launch.call


def bound(problem: Fma | Mma) -> Launch | None:
    """Bind a peak kernel to operands of its own; None where it does not compile, or there are too few processors."""
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
    """Of this thread's processor time, or by another clock."""
    start = clock()
    call()
    return max(clock() - start, 1e-9)
