"""Exchanges between threads by our kernels in CUDA C, with the geometry of exchange.cu."""

from __future__ import annotations

from pathlib import Path

from kernels import grid
from kernels.libs.cuda import CUDA_SUITE
from kernels.nvcc import Geometry, over
from kernels.ops.exchange.problem import HOW, THREADS, Exchange
from kernels.variant import Variant, row

SOURCE = Path(__file__).with_name("exchange.cu")
CLEAR = "exchange_clear"  # clears the words in global memory before threads add to them
KERNELS = (*(f"exchange_{how.replace('-', '_')}" for how in HOW), CLEAR)


def kernel(problem: Exchange) -> str:
    """Return the name of the kernel that solves `problem`."""
    return f"exchange_{problem.how.replace('-', '_')}"


def launches(problem: Exchange, name: str) -> tuple[Geometry, ...]:
    """Return a launch of one block per multiprocessor; add-global first clears the words."""
    spread = () if problem.how == "shuffle" else (problem.spread,)
    does = over(kernel(problem), problem.processors, THREADS, "xy", *spread, problem.steps)
    clears = over(CLEAR, -(-problem.spread // THREADS), THREADS, "y", *spread)
    return (clears, does) if problem.how == "add-global" else (does,)


INSTRUCTIONS = {"load": "LDS", "shuffle": "SHFL", "add-shared": "atomicAdd", "add-global": "atomicAdd"}
PREPARE = grid.solving(SOURCE, launches, kernel)
VARIANTS: tuple[Variant[Exchange], ...] = (
    row(CUDA_SUITE, "cuda", PREPARE, blas=lambda problem: INSTRUCTIONS[problem.how]),
)
