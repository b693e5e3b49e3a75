"""This core's multiply-adds a second, in the widest instructions it has: what nothing in a step can beat."""

from __future__ import annotations

import time
from collections.abc import Callable

from kernels.catalog import find
from kernels.devices.cpu import instruction_sets, open_device
from kernels.errors import SuiteError
from kernels.launch import Setting
from kernels.ops.fma import Fma

CALLS = 20  # of a look, a tenth of a millisecond each; the best counts
UNIT = 1e9  # FLOP


class Peak:
    """The kernel, prepared once. A look at it takes a turn in every round."""

    def __init__(self) -> None:
        self._problem = Fma(instruction_sets()[-1])
        self._call = _prepared(self._problem)

    def look(self) -> float | None:
        """Seconds of processor time that UNIT takes now; None where it cannot be told."""
        if self._call is None:
            return None
        self._call()
        return min(_seconds(self._call) for _ in range(CALLS)) * UNIT / self._problem.flops


def _prepared(problem: Fma) -> Callable[[], object] | None:
    device = open_device()
    try:
        bind = find("fma", "c").prepare(problem, device, Setting())
    except SuiteError:
        return None
    blocks = [device.allocate(x.nbytes) for x in problem.operands()]
    for block in blocks:
        device.scatter(block, 1)
    return bind([device.view(b, 0, x) for b, x in zip(blocks, problem.operands(), strict=True)]).call


def _seconds(call: Callable[[], object]) -> float:
    start = time.thread_time()
    call()
    return max(time.thread_time() - start, 1e-9)
