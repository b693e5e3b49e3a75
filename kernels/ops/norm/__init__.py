"""Batch normalization and local response normalization."""

from kernels.ops.norm.problem import Norm as Norm
