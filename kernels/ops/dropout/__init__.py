"""Dropout, forward and backward."""

from kernels.ops.dropout.problem import Dropout

__all__ = ["PROBLEM", "Dropout"]

PROBLEM = Dropout
