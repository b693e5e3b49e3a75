"""Out-of-place transpositions: which kernel is fastest at each size?"""

from __future__ import annotations

import sys

from kernels.ops.transpose.problem import Transpose
from micro._cli import main
from micro._plan import Benchmark

BENCHMARK = Benchmark(
    Transpose,
    "Out-of-place transposition, y[j, i] = x[i, j], row-major.",
    sweep={"rows": (64, 1024), "cols": (64, 1024, 1040)},
    questions={},
    variants=("tiled", "numpy", "somatcopy"),
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "transpose"))
