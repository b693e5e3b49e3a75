"""Dependent loads: the latency of memory."""

from kernels.ops.chase.problem import Chase as Chase
