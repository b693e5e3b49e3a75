"""y = f(x), element by element, and its gradient."""

from kernels.ops.activation.problem import Activation

__all__ = ["PROBLEM", "Activation"]

PROBLEM = Activation
