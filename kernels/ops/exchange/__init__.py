"""Data exchange between threads of a GPU: banks of shared memory, shuffles, additions to shared words."""

from kernels.ops.exchange.problem import Exchange as Exchange
