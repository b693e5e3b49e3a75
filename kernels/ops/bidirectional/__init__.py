"""Bidirectional recurrent layers: a second layer that starts at the last step."""

from kernels.ops.bidirectional.problem import Bidirectional

__all__ = ["Bidirectional"]
