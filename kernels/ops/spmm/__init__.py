"""Sparse product C = W·B: the gain from pruning."""

from kernels.ops.spmm.problem import Spmm

__all__ = ["PROBLEM", "Spmm"]

PROBLEM = Spmm
