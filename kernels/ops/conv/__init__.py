"""Convolution of images in three passes."""

from kernels.ops.conv.problem import Conv as Conv
