"""Transforms of images by themselves, of which a convolution by FFT is made: library against library."""

from __future__ import annotations

from dataclasses import replace

from kernels.catalog import find
from kernels.ops.fft.problem import Fft
from micro.planning.benchmark import Benchmark, Request
from micro.planning.contest import Contest

# Those of a layer of 64 channels, batch 16: images of 27 × 27 under a filter of 5 × 5, of 56 × 56 under one of 3 × 3.
SIZES = (Fft(1024, 32, 32), Fft(1024, 60, 60))
BESIDE = Benchmark(
    Fft, "Transforms of images.", sweep={"batch": (1024,), "h": (32,), "w": (32,), "direction": ("r2c",)}, questions={}
)


def transforms(asked: Request) -> list[Contest]:
    """To spectra and back; each library against the first that takes it."""
    built = []
    for problem in (replace(size, direction=way) for size in SIZES for way in ("r2c", "c2r")):
        names = [name for name in asked.rows(op=Fft.op) if find(Fft.op, name).accepts(problem) is None]
        cases = tuple(asked.case(problem, name) for name in names)
        if len(cases) > 1:
            built.append(Contest(f"transforms/{problem.name}", "whose transforms?", "variant", cases))
    return built
