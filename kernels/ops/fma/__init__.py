"""Multiply-adds x ← x/2 + d in registers: the processor's peak, and its latency."""

from kernels.ops.fma.problem import Fma as Fma
