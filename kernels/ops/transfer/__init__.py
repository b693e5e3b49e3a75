"""Copies from one memory into another."""

from kernels.ops.transfer.problem import Transfer

__all__ = ["PROBLEM", "Transfer"]

PROBLEM = Transfer
