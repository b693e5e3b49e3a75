"""Discrete Fourier transforms of real images, of which a convolution by FFT is made, by library."""

from __future__ import annotations

import sys

from kernels.ops.fft.problem import Fft
from micro.command.line import main
from micro.planning.benchmark import Benchmark, Useful

BENCHMARK = Benchmark(
    Fft,
    "Transforms of real images, to spectra and back: ours, SciPy's, NumPy's, FFTW's, MKL's inside PyTorch; on a GPU "
    "cuFFT's, through our binding, scikit-cuda, CuPy and PyTorch.",
    # From a layer of 64 channels, batch 16: images of 27 × 27 under a filter of 5 × 5.
    sweep={"batch": (1024,), "h": (32,), "w": (32,), "direction": ("r2c", "c2r")},
    useful=(Useful(), Useful("", 240, 8.0)),
    small="--batch 2",
)
if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "fft"))
