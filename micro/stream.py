"""Contiguous traffic: how fast are reads, copies and triads at each size, and who copies fastest?"""

from __future__ import annotations

import sys

from kernels.ops.stream.problem import Stream
from micro.command.line import main
from micro.planning.benchmark import Benchmark, Useful

BENCHMARK = Benchmark(
    Stream,
    "Read, copy and triad over contiguous memory, counted as in STREAM.",
    sweep={"kind": ("copy",), "size": (1 << 14, 1 << 20, 1 << 26)},
    questions={},
    variants=("c", "numpy"),
    cuda=("cuda", "memcpy-cuda", "cupy", "torch-cuda"),
    useful={
        "cpu": (Useful(),),
        "cuda": (
            Useful("--size 134217728", 121, 6.0),
            Useful("--kind read,triad --size 134217728 --variant cuda", 122, 4.0),
            Useful("--size 16777216", 262, 5.0),
        ),
    },
    small="--size 4096",
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "stream"))
