"""Element-wise kernels one after another, some of them in another memory."""

from kernels.ops.chain.problem import Chain

__all__ = ["PROBLEM", "Chain"]

PROBLEM = Chain
