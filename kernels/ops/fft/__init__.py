"""Discrete Fourier transforms of real images, and their inverses."""

from kernels.ops.fft.problem import Fft

__all__ = ["PROBLEM", "Fft"]

PROBLEM = Fft
