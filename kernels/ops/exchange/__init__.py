"""Data that threads of a GPU hand each other: banks of shared memory, shuffles, additions to shared words."""

from kernels.ops.exchange.problem import PROBLEM, Exchange

__all__ = ["PROBLEM", "Exchange"]
