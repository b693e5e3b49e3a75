"""Dropout on a GPU, by kernels of our own and by cuDNN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernels import grid
from kernels.libs import cuda as cuda_library
from kernels.ops.dropout import cuda, cudnn_rows
from kernels.ops.dropout.problem import Dropout
from kernels.variant import Variant

VARIANTS: tuple[Variant[Dropout], ...] = (
    Variant("cuda", "cuda", "suite", grid.solving(cuda), missing=cuda_library.missing),
    cudnn_rows.VARIANT,
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
