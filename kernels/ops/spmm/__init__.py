"""C = W·B with W sparse: what pruning is worth."""

from kernels.ops.spmm.problem import Spmm

__all__ = ["PROBLEM", "Spmm"]

PROBLEM = Spmm
