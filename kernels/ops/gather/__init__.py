"""Rows of a table: picked, or stepped."""

from kernels.ops.gather.problem import Gather

__all__ = ["PROBLEM", "Gather"]

PROBLEM = Gather
