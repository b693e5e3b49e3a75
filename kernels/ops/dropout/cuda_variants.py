"""Dropout on a GPU, by kernels of our own and by cuDNN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernels import grid
from kernels.libs.cuda import CUDA_SUITE
from kernels.ops.dropout import cuda, cudnn_rows
from kernels.ops.dropout.problem import Dropout
from kernels.variant import Variant, row

VARIANTS: tuple[Variant[Dropout], ...] = (row(CUDA_SUITE, "cuda", grid.solving(cuda)), cudnn_rows.VARIANT)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
