"""Rows of a table, looked up or updated."""

from kernels.ops.gather.problem import Gather as Gather
