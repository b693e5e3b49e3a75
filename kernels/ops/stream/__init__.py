"""Reads, copies and triads over contiguous memory."""

from kernels.ops.stream.problem import Stream

__all__ = ["PROBLEM", "Stream"]

PROBLEM = Stream
