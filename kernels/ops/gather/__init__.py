"""Embedding rows: lookup and sparse update."""

from kernels.ops.gather.problem import Gather as Gather
