"""Vector update y = y/2 + x, with its operands in cache or out of it."""

from kernels.ops.saxpy.problem import Saxpy as Saxpy
