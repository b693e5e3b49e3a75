"""One row: our kernels in CUDA C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernels import grid
from kernels.libs import cuda as cuda_library
from kernels.ops.exchange import cuda
from kernels.ops.exchange.problem import Exchange
from kernels.variant import Variant

INSTRUCTIONS = {"load": "LDS", "shuffle": "SHFL", "add-shared": "atomicAdd", "add-global": "atomicAdd"}
VARIANTS: tuple[Variant[Exchange], ...] = (
    Variant(
        "cuda",
        "cuda",
        "suite",
        grid.solving(cuda),
        missing=cuda_library.missing,
        blas=lambda problem: INSTRUCTIONS[problem.how],
    ),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
