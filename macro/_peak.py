"""This core's multiply-adds a second, in the widest instructions it has: what nothing in a step can beat."""

from __future__ import annotations

import time

from kernels.devices.cpu import instruction_sets, open_device
from kernels.errors import SuiteError
from kernels.ops.fma import Fma
from kernels.variant import Setting, find

CALLS = 200  # of a tenth of a millisecond each; the best counts


def flops() -> float:
    """FLOP/s of one core, in processor time; 0 where it cannot be told."""
    problem, device = Fma(instruction_sets()[-1]), open_device()
    try:
        bind = find("fma", "c").prepare(problem, device, Setting())
    except SuiteError:
        return 0.0
    blocks = [device.allocate(x.nbytes) for x in problem.operands()]
    for block in blocks:
        device.scatter(block, 1)
    call = bind([device.view(b, 0, x) for b, x in zip(blocks, problem.operands(), strict=True)]).call
    call()
    best = min(_seconds(call) for _ in range(CALLS))
    return problem.flops / best


def _seconds(call: object) -> float:
    start = time.thread_time()
    call()  # type: ignore[operator]
    return max(time.thread_time() - start, 1e-9)
