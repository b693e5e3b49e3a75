"""Conversions between element types, clears and fills."""

from kernels.ops.cast.problem import Cast as Cast
