"""Activation functions, y = f(x) element by element, and their gradients."""

from kernels.ops.activation.problem import Activation

__all__ = ["PROBLEM", "Activation"]

PROBLEM = Activation
