"""Recurrent layers: LSTM, GRU and a tanh cell over a sequence, with their gradients."""

from kernels.ops.recurrent.problem import Recurrent

__all__ = ["Recurrent"]
