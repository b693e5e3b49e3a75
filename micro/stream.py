"""Contiguous traffic: rates of reads, copies and triads at each size, by implementation."""

from __future__ import annotations

import sys

from kernels.ops.stream.problem import Stream
from micro.command.line import main
from micro.planning.benchmark import Benchmark, Useful

BENCHMARK = Benchmark(
    Stream,
    "Read, copy and triad of contiguous memory, bytes counted as in STREAM.",
    sweep={"kind": ("copy",), "size": (1 << 14, 1 << 20, 1 << 26)},
    useful=(
        Useful(),
        Useful("--size {memory}", 20, 6.0),
        Useful("--kind read,triad --size {memory} --variant cuda", 30, 4.0),
        Useful("--size 16777216", 190, 5.0),
    ),
    small="--size 4096",
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "stream"))
