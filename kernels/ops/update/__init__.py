"""Step of a dense layer's weights, W ← W − lr·Xᵀ·dY / batch: one product, or product and pass."""

from kernels.ops.update.problem import Update as Update
