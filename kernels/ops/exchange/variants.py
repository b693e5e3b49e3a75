"""Exchanges between threads by our kernels in CUDA C."""

from __future__ import annotations

from kernels import grid
from kernels.libs.cuda import CUDA_SUITE
from kernels.ops.exchange import gpu
from kernels.ops.exchange.problem import Exchange
from kernels.variant import Variant, row

INSTRUCTIONS = {"load": "LDS", "shuffle": "SHFL", "add-shared": "atomicAdd", "add-global": "atomicAdd"}
VARIANTS: tuple[Variant[Exchange], ...] = (
    row(CUDA_SUITE, "cuda", grid.solving(gpu), blas=lambda problem: INSTRUCTIONS[problem.how]),
)
