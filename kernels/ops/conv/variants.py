"""Convolution variants on a CPU, by provider."""

from __future__ import annotations

from kernels.ops.conv import direct, fft, im2col, ncnn, onednn, onnxruntime, tiled, torch, winograd
from kernels.ops.conv.problem import Conv
from kernels.variant import Variant

VARIANTS: tuple[Variant[Conv], ...] = (
    *torch.ROWS,
    *onednn.ROWS,
    *ncnn.ROWS,
    *onnxruntime.ROWS,
    *direct.ROWS,
    *im2col.ROWS,
    *winograd.ROWS,
    *fft.ROWS,
    *tiled.ROWS,
)
