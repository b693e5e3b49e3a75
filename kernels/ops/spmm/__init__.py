"""Sparse product C = W·B: the gain from pruning."""

from kernels.ops.spmm.problem import Spmm as Spmm
