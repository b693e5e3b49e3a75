"""Contiguous traffic: how fast are reads, copies and triads at each size, and who copies fastest?"""

from __future__ import annotations

import sys

from kernels.ops.stream.problem import Stream
from micro._cli import main
from micro._plan import Benchmark

BENCHMARK = Benchmark(
    Stream,
    "Read, copy and triad over contiguous memory, counted as in STREAM.",
    sweep={"kind": ("copy",), "size": (1 << 14, 1 << 20, 1 << 26)},
    questions={},
    variants=("c", "numpy"),
    cuda=("cuda", "memcpy-cuda", "cupy", "torch-cuda"),
    useful={
        "cpu": ("",),
        "cuda": ("--size 16777216,268435456", "--kind read,triad --size 268435456 --variant cuda"),
    },
    small="--size 4096",
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "stream"))
