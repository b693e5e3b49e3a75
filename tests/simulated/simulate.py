"""Runs the Numba twins in Numba's own simulator and prints their errors as JSON.

`NUMBA_ENABLE_CUDASIM=1 python -m tests.simulated.simulate`; the page of docs/cuda.py has them.
"""

from __future__ import annotations

import itertools
import json
import warnings
from typing import Any

import numpy as np

from kernels.ops.gemm import Gemm, gpu
from tests.simulated import cases

TILE = 4  # a system thread for each of a block: 16 of them
SHAPES = ((1, 1, 1), (5, 7, 6), (9, 4, 11))
LAYOUTS = ("nn", "nt", "tn", "tt")


def run(kernel: str, problem: Gemm) -> cases.Error:
    """One launch; C is NaN before it where it is not read."""
    x = problem.fill(np.random.default_rng(7))
    a = x["a"] if problem.trans[0] == "n" else x["a"].T
    b = x["b"] if problem.trans[1] == "n" else x["b"].T
    c = x["c"].copy() if problem.beta else np.full((problem.m, problem.n), np.nan, np.float32)
    blocks, threads = gpu.geometry(kernel, problem.m, problem.n, TILE)
    launched: Any = gpu.kernels(TILE)[kernel]
    launched[blocks, threads](a, b, c, np.float32(problem.alpha), np.float32(problem.beta))
    return cases.compare(problem, x, {"c": c})


def errors(kernel: str) -> list[float]:
    """The largest errors at the three shapes. Raises AssertionError where one is not allowed."""
    found = []
    for shape in SHAPES:
        error = run(kernel, Gemm(*shape))
        assert error.allowed, f"{kernel} at {shape}: off by {error.largest:.2g}"
        found.append(error.largest)
    for trans, (alpha, beta) in itertools.product(LAYOUTS, ((1.0, 0.0), (-0.7, 2.5))):
        problem = Gemm(*SHAPES[1], trans, alpha=alpha, beta=beta)
        assert run(kernel, problem).allowed, problem.name
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps({name: errors(name) for name in ("sgemm_naive", "sgemm_tiled")}))
