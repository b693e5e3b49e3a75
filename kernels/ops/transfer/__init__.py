"""Copies from one memory into another."""

from kernels.ops.transfer.problem import Transfer as Transfer
