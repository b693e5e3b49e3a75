"""PyCUDA: does what was built for it load, and run a kernel?"""

from __future__ import annotations

from typing import Any

from micro.probing.facts import Facts, need, package

QUESTION = "Does PyCUDA import here, compile a kernel with nvcc and run it?"
LIMIT = 60.0
PART = 3
RANK = 160
SOURCE = "__global__ void twice(float *x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }"


def ask() -> dict[str, Any]:
    need("pycuda")
    from kernels.libs import pycuda as adapter

    facts = Facts()
    facts.ask("load()", lambda: str(adapter.load()))
    facts.ask("kernel", kernel)
    return facts.found


def kernel() -> dict[str, Any]:
    """In the primary context, which CuPy and torch share."""
    import numpy as np

    pycuda, driver = package("pycuda"), package("pycuda.driver")
    compiler = package("pycuda.compiler")

    driver.init()
    context = driver.Device(0).retain_primary_context()
    context.push()
    try:
        twice = compiler.SourceModule(SOURCE).get_function("twice")
        x = np.arange(64, dtype=np.float32)
        want = 2 * x
        twice(driver.InOut(x), np.int32(64), block=(64, 1, 1), grid=(1, 1))
        return {
            "right": bool((x == want).all()),
            "version": pycuda.VERSION_TEXT,
            "driver": driver.get_driver_version(),
            "device": driver.Device(0).name(),
        }
    finally:
        context.pop()
