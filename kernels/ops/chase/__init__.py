"""Dependent loads: the latency of memory."""

from kernels.ops.chase.problem import PROBLEM, Chase

__all__ = ["PROBLEM", "Chase"]
