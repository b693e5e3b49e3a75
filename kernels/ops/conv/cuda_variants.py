"""Convolutions on a GPU, by provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernels.ops.conv import cuda_rows, cudnn_plans, cudnn_rows
from kernels.ops.conv.problem import Conv
from kernels.variant import Variant

VARIANTS: tuple[Variant[Conv], ...] = (*cudnn_rows.ROWS, *cudnn_plans.ROWS, *cuda_rows.ROWS)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {
    "cudnn-find": cudnn_rows.search,
    **cudnn_plans.FAMILIES,
    **cuda_rows.FAMILIES,
}
