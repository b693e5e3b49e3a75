"""Reads, copies and triads over contiguous memory."""

from kernels.ops.stream.problem import Stream as Stream
