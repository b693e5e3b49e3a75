"""Out-of-place transpositions: the time of each kernel at each size."""

from __future__ import annotations

import sys

from kernels.ops.transpose.problem import Transpose
from micro.command.line import main
from micro.planning.benchmark import Benchmark, Useful

BENCHMARK = Benchmark(
    Transpose,
    "Out-of-place transposition, y[j, i] = x[i, j], row-major.",
    sweep={"rows": (64, 1024), "cols": (64, 1024, 1040)},
    useful=(Useful(), Useful("--rows 8192 --cols 4096", 40, 8.0), Useful("--rows 1024 --cols 1040", 200, 5.0)),
    small="--rows 8 --cols 8,16",
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "transpose"))
