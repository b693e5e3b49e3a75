"""Dropout, forward and backward."""

from kernels.ops.dropout.problem import Dropout as Dropout
