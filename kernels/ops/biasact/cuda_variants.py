"""Bias and ReLU on a GPU by kernels of our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernels import grid
from kernels.libs import cuda as cuda_library
from kernels.ops.biasact import cuda
from kernels.ops.biasact.problem import BiasAct
from kernels.variant import Variant


def alone(problem: BiasAct) -> str | None:
    """For rows that know no product."""
    return "no product goes before it: --terms 0" if problem.terms else None


VARIANTS: tuple[Variant[BiasAct], ...] = (
    Variant("cuda", "cuda", "suite", grid.solving(cuda), accepts=alone, missing=cuda_library.missing),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
