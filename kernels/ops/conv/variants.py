"""Every kernel of a convolution, by provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernels.ops.conv import (
    direct,
    fft_rows,
    im2col,
    ncnn_rows,
    onednn_rows,
    onnxruntime_rows,
    tiled_rows,
    torch_rows,
    winograd_rows,
)
from kernels.ops.conv.problem import Conv
from kernels.variant import Variant

VARIANTS: tuple[Variant[Conv], ...] = (
    *torch_rows.ROWS,
    *onednn_rows.ROWS,
    *ncnn_rows.ROWS,
    *onnxruntime_rows.ROWS,
    *direct.ROWS,
    *im2col.ROWS,
    *winograd_rows.ROWS,
    *fft_rows.ROWS,
    *tiled_rows.ROWS,
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
