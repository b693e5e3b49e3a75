"""Width and threads of a processor together: the gain by both for each operation, and its limits."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

from kernels.ops.activation.problem import Activation
from kernels.ops.conv.problem import Conv
from kernels.ops.fft.problem import Fft
from kernels.ops.gemm.problem import Gemm
from kernels.ops.optimizer.problem import Optimizer
from kernels.ops.softmax.problem import Softmax
from kernels.ops.stream.problem import Stream
from kernels.problem import Problem
from micro.answers import cpu as answers
from micro.command.line import main
from micro.contests import cpu as contests
from micro.planning.benchmark import Benchmark, Question, Useful

SEVERAL = ("threads", "isa")
ALL = "also libraries, with a selectable instruction set or their default set"
QUESTIONS = {
    "grid": Question(
        "how much do instruction sets and threads speed up products, convolution, FFT, softmax, sums, optimizers?",
        contests.grid,
        answers.grid,
        120.0,
        all=ALL,
        several=SEVERAL,
    ),
    "width": Question(
        "how much do wider vectors speed up one thread, and all threads?",
        contests.width,
        seconds=60.0,
        all=ALL,
        several=SEVERAL,
    ),
    "saturation": Question(
        "from how many threads do memory or serial parts limit the speed?",
        contests.saturation,
        answers.saturation,
        40.0,
        all=ALL,
        several=("threads",),
    ),
    "oversubscribe": Question(
        "what do more threads than cores cost, and nested thread pools?",
        contests.oversubscribe,
        seconds=40.0,
        several=("threads",),
    ),
    "clock": Question("do wide instructions slow the code after them?", contests.clock, seconds=10.0),
}
ABOUT = (
    "Instruction sets and threads of a processor. Each set is selected by the library's switch in a separate "
    "process and verified; our kernels are compiled for it. Default question: --grid. Axes select another operation "
    "than the product: --batch --classes a softmax, --kind --size a sum, --n --c --h --w --k a "
    "convolution."
)


def _benchmark(problem: type[Problem], sweep: dict[str, tuple[Any, ...]], *others: Benchmark) -> Benchmark:
    return Benchmark(
        problem,
        ABOUT,
        sweep,
        QUESTIONS,
        useful=(Useful("--grid"),),
        small="--m 64 --n 64 --k 64",
        default="grid",
        sweeping=tuple(axis.name for axis in fields(problem)),
        others=others,
        oversubscribed=True,
    )


BENCHMARK = _benchmark(
    Gemm,
    {"m": (64, 256, 1024), "n": (1024,), "k": (1024,)},
    _benchmark(Activation, {"count": (1 << 16,), "kind": ("sigmoid",)}),
    _benchmark(Softmax, {"batch": (256,), "classes": (1000,)}),
    _benchmark(Stream, {"size": (1 << 20,), "kind": ("read",)}),
    _benchmark(Fft, {"h": (64,), "w": (64,), "batch": (64,)}),
    _benchmark(Optimizer, {"rule": ("momentum",), "tensors": (1,), "size": (4 << 20,)}),
    _benchmark(Conv, {"c": (64,), "n": (16,), "h": (28,), "w": (28,), "k": (64,)}),
)
if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "cpu"))
