"""CUPTI beside CuPy: its kernels, and what watching them costs."""

from __future__ import annotations

from typing import Any

from kernels.libs import cupti
from micro.probing import tracing
from micro.probing.facts import Facts, need

QUESTION = "Does a CUPTI client in the process see CuPy's kernels, and what does a launch cost under it?"
LIMIT = 60.0
PART = 3
RANK = 120


def ask() -> dict[str, Any]:
    need("cupti", "cupy")
    facts = Facts()
    facts.ask("tracing", cupti.start)
    import cupy

    x = cupy.ones((512, 512), cupy.float32)

    def work() -> None:
        (x @ x.T + 1).sum()

    wait = cupy.cuda.runtime.deviceSynchronize
    work()
    facts.ask("kernels", lambda: tracing.traced(work, wait))
    small = cupy.ones(32, cupy.float32)
    add = cupy.ElementwiseKernel("float32 x", "float32 y", "y = x + 1", "one_more")
    add(small, small)
    facts.ask("overhead", lambda: tracing.overhead(lambda: add(small, small), wait))
    return facts.found
