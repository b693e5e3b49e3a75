"""Out-of-place transposition, y = xᵀ."""

from kernels.ops.transpose.problem import Transpose

__all__ = ["PROBLEM", "Transpose"]

PROBLEM = Transpose
