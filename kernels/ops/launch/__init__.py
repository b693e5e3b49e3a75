"""Cost of one call before any work: the same small kernel, reached in different ways."""

from kernels.ops.launch.problem import Calls as Calls
