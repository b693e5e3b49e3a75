"""Discrete Fourier transforms of real images, and their inverses."""

from kernels.ops.fft.problem import Fft as Fft
