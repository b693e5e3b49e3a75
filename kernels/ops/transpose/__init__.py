"""y = xᵀ, out of place."""

from kernels.ops.transpose.problem import Transpose

__all__ = ["PROBLEM", "Transpose"]

PROBLEM = Transpose
