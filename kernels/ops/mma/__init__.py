"""Products c = steps · a·bᵀ on tensor cores, fragments in registers or shared memory: their peak."""

from kernels.ops.mma.problem import Mma as Mma
