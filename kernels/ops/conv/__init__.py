"""Convolution of images in three passes."""

from kernels.ops.conv.problem import Conv

__all__ = ["PROBLEM", "Conv"]

PROBLEM = Conv
