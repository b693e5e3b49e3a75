"""Batch normalization and local response normalization."""

from kernels.ops.norm.problem import Norm

__all__ = ["PROBLEM", "Norm"]

PROBLEM = Norm
