"""General matrix product, C = alpha · op(A) · op(B) + beta · C."""

from kernels.ops.gemm.problem import Gemm as Gemm
