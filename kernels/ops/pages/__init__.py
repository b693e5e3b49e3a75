"""Costs of obtaining memory: first touch (page faults), mapping, the heap."""

from kernels.ops.pages.problem import Pages as Pages
