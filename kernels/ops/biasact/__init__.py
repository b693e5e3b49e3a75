"""Bias and ReLU, after a product or alone, and their gradients."""

from kernels.ops.biasact.problem import BiasAct as BiasAct
