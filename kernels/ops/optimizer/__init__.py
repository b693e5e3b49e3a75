"""An optimizer's step over given gradients: traffic, and little arithmetic."""

from kernels.ops.optimizer.problem import Optimizer as Optimizer
