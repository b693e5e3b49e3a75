"""Convolutions in three passes: sums term by term, im2col, Winograd, FFT, whose, and from which size on?"""

from __future__ import annotations

import sys

from kernels.ops.conv.problem import Conv
from micro.answers import conv_norm_pool as answers
from micro.answers.conv import answer
from micro.command.line import main
from micro.contests import conv_norm_pool as norm_pool
from micro.contests import convolution as build
from micro.planning.benchmark import Benchmark, Question, Useful

BENCHMARK = Benchmark(
    Conv,
    "Convolutions, forward, gradient of the image (dgrad), gradient of the filter (wgrad). Without a question: "
    "--algorithms. Percents of a ceiling are by the multiplications that an algorithm executes.",
    sweep={"c": (256,), "h": (13,), "w": (13,), "k": (384,), "n": (16,), "direction": build.PASSES},
    questions={
        "algorithms": Question(
            "which algorithm, in which library? (about 60 s)",
            build.algorithms,
            answer,
            60.0,
            all="every layer of AlexNet-S, and ResNet-50's usual ones",
        ),
        "fft": Question(
            "from which filter size on is FFT faster? (about 60 s)",
            build.fft,
            answer,
            60.0,
            all="three passes, a wider image, filters to 11 × 11",
        ),
        "winograd": Question(
            "what do Winograd's tiles bring at 3×3? (about 40 s)", build.winograd, answer, 40.0, all="every 3×3 layer"
        ),
        "norm_and_pool": Question(
            "what do a network's normalizations and poolings take, beside its convolutions? (about 90 s)",
            norm_pool.contests,
            answers.answer,
            90.0,
            all="ResNet-50 too",
        ),
        "passes": Question("what do the gradients cost? (about 40 s)", build.backward, answer, 40.0),
        "layouts": Question("channels first, last, or in blocks? (about 40 s)", build.layouts, answer, 40.0),
        "grouped": Question("what do groups save? (about 30 s)", build.grouped, answer, 30.0),
        "widths": Question("what does a channel more or less cost? (about 30 s)", build.widths, answer, 30.0),
    },
    useful=(Useful(), Useful("--fft"), Useful("--winograd")),
    small="--n 1",
    default="algorithms",
    sweeping=("c", "h", "w", "k", "r", "s", "stride", "dilation", "groups"),
    limiting=("n",),
    others=norm_pool.BESIDE,
)


if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "conv"))
