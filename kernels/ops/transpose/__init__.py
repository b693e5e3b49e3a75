"""Out-of-place transposition, y = xᵀ."""

from kernels.ops.transpose.problem import Transpose as Transpose
