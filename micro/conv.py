"""Convolutions in three passes: sums term by term, im2col, Winograd, FFT, by library and size."""

from __future__ import annotations

import sys

from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES, SIDES
from micro.answers import conv_find, conv_ranked
from micro.command.line import main
from micro.contests import conv_find as search
from micro.contests import convolution as build
from micro.findings.crossing import Crossing
from micro.findings.ratios import ratios
from micro.findings.select import Pair
from micro.planning.benchmark import Benchmark, Question, Useful


def _image(pair: Pair) -> tuple[str, ...] | None:
    """Return the key of pairs that differ in filter size alone; None for variants without FFT."""
    x, variant = pair.contender.problem, pair.contender.variant
    return (variant, x.direction, f"{x.c}→{x.k} channels {x.h}×{x.w}") if "fft" in variant else None


FFT = Crossing("fft/", "FFT wins", "filters of edge", lambda pair: int(pair.contender.problem.r), _image)
BENCHMARK = Benchmark(
    Conv,
    "Convolutions, forward, gradient of the image (dgrad), gradient of the filter (wgrad). Default question: "
    "--algorithms. Shares of a ceiling count the multiplications that an algorithm executes.",
    sweep={"c": (256,), "h": (13,), "w": (13,), "k": (384,), "n": (16,), "direction": PASSES},
    questions={
        "algorithms": Question(
            "which algorithm and library is fastest? (about 60 s)",
            build.algorithms,
            seconds=60.0,
            all="every layer of AlexNet-S, and typical layers of ResNet-50",
        ),
        "fft": Question(
            "from which filter size is FFT faster? (about 60 s)",
            build.fft,
            lambda run: [*FFT(run), *ratios(run)],
            60.0,
            all="three passes, a wider image, filters to 11 × 11",
        ),
        "winograd": Question(
            "how much do Winograd's tiles save at 3×3? (about 40 s)",
            build.winograd,
            seconds=40.0,
            all="every 3×3 layer",
        ),
        "passes": Question("how much slower are the gradients? (about 40 s)", build.backward, seconds=40.0),
        "layouts": Question(
            "are channels first, last, or in blocks fastest? (about 40 s)", build.layouts, seconds=40.0
        ),
        "one_by_one": Question(
            "is a 1×1 layer as fast as a product, and which layer should have a block's stride? (about 60 s)",
            build.one_by_one,
            seconds=60.0,
            all="a 7×7 layer, all three ResNet-50 blocks with a stride",
        ),
        "find": Question(
            "how slow is the default, and what does a search for the fastest cost? (about 60 s)",
            search.build,
            conv_find.answer,
            60.0,
            search.refine,
            all="every layer",
            kept=0.4,
        ),
        "engines": Question(
            "how slow are the choices of cuDNN's heuristics, against all its engines? (GPU; about 60 s)",
            build.engines,
            seconds=60.0,
            full="every engine by number, also in TF32",
            all="every layer",
        ),
    },
    net=Question("how much time could a step save in its convolutions?", build.network, conv_ranked.of_net, 120.0),
    of_file=conv_ranked.of_file,
    useful=(
        Useful(),
        Useful("--fft"),
        Useful("--winograd"),
        Useful("", 410, 60.0),
        Useful("--fft", 420, 40.0),
        Useful("--winograd", 430, 20.0),
        Useful("--engines", 409, 20.0),
    ),
    small="--n 1",
    default="algorithms",
    sweeping=("c", "h", "w", "k", "r", "s", "stride", "pad", *SIDES, "dilation", "groups", "layout"),
    limiting=("n",),
)


if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "conv"))
