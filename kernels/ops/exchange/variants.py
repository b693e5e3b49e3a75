"""Exchanges between threads by our kernels in CUDA C, with the geometry of exchange.cu."""

from __future__ import annotations

from pathlib import Path

from kernels import grid
from kernels.errors import UsageError
from kernels.libs.cuda import CUDA_SUITE
from kernels.nvcc import Argument, Geometry, refuse_unknown
from kernels.ops.exchange.problem import HOW, THREADS, Exchange
from kernels.variant import Variant, row

SOURCE = Path(__file__).with_name("exchange.cu")
CLEAR = "exchange_clear"  # the words of all blocks, before they are added to
KERNELS = (*(f"exchange_{how.replace('-', '_')}" for how in HOW), CLEAR)


def kernel(problem: Exchange) -> str:
    """Return the name of the kernel that solves `problem`."""
    return f"exchange_{problem.how.replace('-', '_')}"


def launches(problem: Exchange, name: str) -> tuple[Geometry, ...]:
    """Return one block a multiprocessor; words that all blocks add to are cleared before. Raises UsageError."""
    refuse_unknown(SOURCE, name, KERNELS)
    shared = problem.how == "add-global"
    if name not in (kernel(problem), *((CLEAR,) if shared else ())):
        raise UsageError(f"{name} is not for {problem.name}: take {kernel(problem)}")
    spread: tuple[Argument, ...] = () if problem.how == "shuffle" else (("int64", problem.spread),)
    both: tuple[Argument, ...] = (("operand", "x"), ("operand", "y"))
    does = Geometry(
        kernel(problem), (problem.processors, 1, 1), (THREADS, 1, 1), (*both, *spread, ("int64", problem.steps))
    )
    blocks = -(-problem.spread // THREADS)
    return (Geometry(CLEAR, (blocks, 1, 1), (THREADS, 1, 1), (both[1], *spread)), does) if shared else (does,)


INSTRUCTIONS = {"load": "LDS", "shuffle": "SHFL", "add-shared": "atomicAdd", "add-global": "atomicAdd"}
PREPARE = grid.prepared(SOURCE, lambda problem, device: launches(problem, kernel(problem)))
VARIANTS: tuple[Variant[Exchange], ...] = (
    row(CUDA_SUITE, "cuda", PREPARE, blas=lambda problem: INSTRUCTIONS[problem.how]),
)
