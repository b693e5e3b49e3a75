"""Activations, losses, pooling and other operations bound by memory: fused, recomputed, in place.

One benchmark over several operations. Its questions build contests of any of them; without a question the axes of a
command line choose the operation: `--batch 64 --classes 10` a softmax, `--units 4096` a dropout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from kernels.ops.activation.problem import Activation
from kernels.ops.biasact.problem import BiasAct
from kernels.ops.cast.problem import Cast
from kernels.ops.dropout.problem import Dropout
from kernels.ops.norm.problem import Norm
from kernels.ops.pooling.problem import Pooling
from kernels.ops.softmax.problem import Softmax
from kernels.problem import Problem
from micro.command.line import main
from micro.contests import elementwise as build
from micro.contests import images
from micro.planning.benchmark import Benchmark, Question, Request, Useful
from micro.planning.contest import Contest

ABOUT = (
    "Memory-bound operations: element-wise operations, losses, pooling, normalization. Default question: --overview. "
    "Axes select another operation than the activations: --batch --classes a softmax, --rows --cols --terms "
    "bias and ReLU, --units --rate dropout, --images --channels --size pooling, --images --maps --size "
    "normalization, --values --convert conversions. With a question, --count shrinks every problem to about this many "
    "elements."
)


def _overview(asked: Request) -> list[Contest]:
    """Return one or two contests of most questions, without those that cannot run here."""
    if asked.device.undivided:  # on a GPU every second contest measures its memory
        return [*build.activations(asked), *build.fused(asked)[:2]]
    contests = [
        *build.functions(asked)[:1],
        *build.providers(asked)[:1],
        *build.fused(asked)[:1],
        *build.doubled(asked)[:1],
        *build.bias(asked)[:1],
        *build.dropout(asked)[:1],
        *images.relu_place(asked)[:1],
        *images.batch_norm(asked)[:1],
        *build.casts(asked)[:1],
        *build.places(asked)[:1],
    ]
    return [x for x in build.unique(contests) if any(case.skip is None for case in x.cases)] or build.unique(contests)


def _question(
    help: str,  # noqa: A002
    *parts: Callable[[Request], list[Contest]],
    seconds: float = 30.0,
    all: str = "",  # noqa: A002
) -> Question:
    return Question(
        f"{help} (about {seconds:.0f} s)",
        lambda asked: build.unique(contest for part in parts for contest in part(asked)),
        seconds=seconds,
        all=all,
    )


QUESTIONS = {
    "overview": _question("one or two contests of each question below", _overview),
    "activations": _question("which variant computes an activation and its gradient fastest?", build.activations),
    "softmax": _question(
        "softmax with cross-entropy: fused, in parts, or repeated? Labels as indices or one-hot?",
        build.fused,
        build.doubled,
        build.labels,
        build.losses,
        seconds=45.0,
        all="classes of all networks in every variant, and 4096 rows of 10000 classes",
    ),
    "bias": _question(
        "bias and ReLU after a product: two passes, one pass, or fused with the product?", build.bias, build.epilogue
    ),
    "dropout": _question("dropout: store the mask, or recompute it?", build.dropout),
    "pooling": _question(
        "pooling: store or recompute indices, ReLU before or after, NCHW or NHWC?",
        images.relu_place,
        images.gradients,
        images.layouts,
        images.pools,
        seconds=45.0,
    ),
    "norm": _question(
        "normalization: fused or separate operations, training or frozen, and LRN?",
        images.batch_norm,
        images.statistics,
        images.modes,
        images.local,
    ),
    "casts": _question("what do type conversions and clearing memory cost?", build.casts, build.clears),
    "inplace": _question("do in-place activations save time?", build.places),
    "exp": _question("sigmoid and tanh against ReLU, and whose exp is fastest?", build.functions, build.providers),
}

Sweep = dict[str, tuple[Any, ...]]


def _benchmark(problem: type[Problem], sweep: Sweep) -> Benchmark:
    return Benchmark(
        problem,
        ABOUT,
        sweep,
        QUESTIONS,
        useful=(
            Useful("--overview"),
            Useful("--activations", 140, 20.0),
            Useful("--softmax --only '^rivals|^fused.*batch:(64|256)/'", 150, 10.0),
            Useful("--norm --only '^(rivals|mode)/'", 280, 8.0),
            Useful("--pooling --only '^(rivals|pool)/'", 290, 5.0),
            Useful("--casts", 370, 5.0),
            Useful("--bias --only '^bias/'", 300, 4.0),
            Useful("--dropout --only '^rivals/'", 300, 4.0),
        ),
        small="--count 512",
        default="overview",
        sweeping=tuple(field.name for field in fields(problem)),
        limiting=("count",),
    )


BENCHMARKS = (
    _benchmark(Activation, {"count": (131072,), "kind": ("relu", "sigmoid", "tanh")}),
    _benchmark(Softmax, {"batch": (64,), "classes": (26752,)}),
    _benchmark(BiasAct, {"rows": (64,), "cols": (2048,)}),
    _benchmark(Dropout, {"units": (131072,)}),
    _benchmark(Pooling, {"images": (16,), "channels": (96,), "size": (55,)}),
    _benchmark(Norm, {"images": (16,), "maps": (96,), "size": (27,)}),
    _benchmark(Cast, {"values": (131072,)}),
)
BENCHMARK = replace(BENCHMARKS[0], others=BENCHMARKS[1:])

if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "elementwise"))
