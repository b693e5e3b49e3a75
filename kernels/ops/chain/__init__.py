"""Chains of element-wise kernels, some of which run in another process."""

from kernels.ops.chain.problem import Chain as Chain
