"""c = steps · a·bᵀ on tensor cores, fragments in registers or in shared memory: what they do at most."""

from kernels.ops.mma.problem import Mma

__all__ = ["PROBLEM", "Mma"]

PROBLEM = Mma
