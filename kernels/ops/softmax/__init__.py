"""Softmax with cross-entropy: the loss of each row, and its gradient."""

from kernels.ops.softmax.problem import Softmax

__all__ = ["PROBLEM", "Softmax"]

PROBLEM = Softmax
