"""Activation functions, y = f(x) element by element, and their gradients."""

from kernels.ops.activation.problem import Activation as Activation
