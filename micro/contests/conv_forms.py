"""Contests of micro/conv.py on forms of a layer: work around a convolution, and work to leave out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kernels import heap
from kernels.catalog import find
from kernels.errors import UsageError
from kernels.ops.biasact.problem import BiasAct
from kernels.ops.conv.layouts import BLOCK
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES, SIDES
from kernels.ops.norm.problem import Norm
from kernels.ops.stream.problem import Stream
from kernels.ops.transpose.problem import Transpose
from micro.contests.convolution import LAYERS, as_named, contests, in_passes, layer
from micro.planning.benchmark import Benchmark, NothingWritten, Request
from micro.planning.contest import Case, Contest

POINTWISE, STEM = LAYERS["resnet-50 conv2 1x1"], LAYERS["resnet-50 conv1"]
# Kernels of another layout than nchw: who has images and result converted, whose layout it is, who takes them as nchw.
CONVERTING = {
    "torch-relayout": ("torch", "nhwc", "torch"),
    "onednn-direct": ("onednn-direct", "nchw16c", "onednn-gemm"),
}
CONVERSIONS = "layout and conversions"
PADDING = {"torch": "torch-pad"}  # variant that pads by an operation where the argument cannot
FEW = 4  # batch size where contests or cases are many
BLOCKS = ((256, 56, 128), (512, 28, 256), (1024, 14, 512))  # ResNet-50's with a stride: channels, size, filters

# Operations beside the layers, so that a command with their axes can repeat their cases.
BESIDE = (
    Benchmark(Transpose, "y = xᵀ, row-major.", sweep={"rows": (256,), "cols": (50176,)}),
    Benchmark(Stream, "Memory traffic.", sweep={"kind": ("copy",), "size": (51380224,)}),
    Benchmark(BiasAct, "Bias and ReLU.", sweep={"phase": ("forward",), "rows": (50176,), "cols": (64,)}),
)


def _chosen(asked: Request, built: Iterable[Contest]) -> list[Contest]:
    """Keep the contests of the requested variants."""
    return [x for x in built if "variant" not in asked.given or {case.variant for case in x.cases} & {*asked.variants}]


def _taken(name: str, *problems: Conv) -> bool:
    """Report whether a kernel supports all problems, even if its library is not installed."""
    row = find(Conv.op, name)
    return all(row.accepts(problem) is None for problem in problems)


# Layouts (C7)


def relayout(asked: Request) -> list[Contest]:
    """Build contests of layout conversions around a layer, then of a transposition alone.

    Rivals are the same kernel without conversions, and a kernel that needs none."""
    layers = [POINTWISE, LAYERS["alexnet-s conv3"]]
    if asked.every:
        layers = [x for x in LAYERS.values() if x.c % BLOCK == 0]
    sized = [replace(as_named(asked, x), layout="nchw") for x in layers]
    passes = asked.named("direction", PASSES)
    around = [_converted(asked, x, name) for layer in sized for x in in_passes(layer, passes) for name in CONVERTING]
    return _chosen(asked, (*around, _turned(asked, sized[0])))


def _converted(asked: Request, problem: Conv, name: str) -> Contest:
    native, layout, plain = CONVERTING[name]
    cases = (asked.case(replace(problem, layout=layout), native), asked.case(problem, name), asked.case(problem, plain))
    question = "what do two conversions around a layer cost?"
    return Contest(f"relayout/{problem.name}/variant:{name}", question, CONVERSIONS, cases, ((0, 1), (2, 1)))


def _turned(asked: Request, problem: Conv) -> Contest:
    """Compare a transposition with a copy of as many numbers as the layer's images hold.

    A copy takes longer where the C library stores through caches it deems large enough; the suite's stores bypass
    them."""
    pixels = problem.n * problem.h * problem.w
    copy = Stream("copy", 4 * problem.c * pixels)
    matrix = Transpose(problem.c, pixels)
    turns = (asked.case(matrix, name) for name in asked.rows(op=Transpose.op))
    cases = (asked.case(copy, "memcpy"), *turns)
    return Contest(f"relayout/{matrix.name}", "what does a transposition cost beside a copy?", "operation", cases)


# The first layer (C9)


def first(asked: Request) -> list[Contest]:
    """Build contests of the three passes of the layers on a network's input, by kernel.

    The answer omits the input's gradient from the sums of one round."""
    question = "what does a first layer's step save without the gradient of its input?"
    layers = [as_named(asked, x) for x in (LAYERS["alexnet-s conv1"], STEM)[: 2 if asked.every else 1]]
    return [
        asked.along(f"first/{passes[0].name}/variant:{name}", question, "direction", passes, name)
        for passes in (in_passes(layer, PASSES) for layer in layers)
        for name in asked.chosen()
        if _taken(name, *passes)
    ]


# A bias (C14)


def bias_before_norm(asked: Request) -> list[Contest]:
    """Build contests of convolutions with and without bias, the normalization, and a bias pass."""
    if "variant" in asked.given:
        named = ",".join(asked.variants)
        raise UsageError(f"--variant {named}: --bias-before-norm measures torch with a bias and without; leave it out")
    layers = [STEM, layer(64, 56, 256, 1), LAYERS["resnet-50 conv5 3x3"]]
    return [_biased(asked, replace(as_named(asked, x), layout="nchw")) for x in layers]


def _biased(asked: Request, problem: Conv) -> Contest:
    filters = replace(problem, direction="wgrad")
    down, _ = problem.lines
    cases = (
        *(asked.case(each, name) for each in (problem, filters) for name in ("torch", "torch-bias")),
        asked.case(Norm(problem.n, problem.k, down.outputs), "torch"),
        asked.case(BiasAct(problem.n * problem.outputs_of_image, problem.k), "c"),
    )
    question = "what does a bias before a normalization cost?"
    return Contest(f"bias/{problem.name}", question, "work: differs (bias, normalization)", cases, ((0, 1), (2, 3)))


# Padding (C15)


def pad_op(asked: Request) -> list[Contest]:
    """Compare padding by an operation with an argument, by side, and with none."""
    forward, names = asked.named("direction", PASSES[:1]), asked.chosen("sums")
    stem, inner, strided = (
        as_named(asked, x) for x in (replace(STEM, n=FEW), layer(96, 27, 256, 5, n=FEW), layer(3, 224, 32, 3, 2, n=FEW))
    )
    question = "padding as an operation, or as an argument?"
    operations = [
        asked.between(f"pad-op/{x.name}", question, x, ("torch", "torch-pad"))
        for layer in (stem, inner)
        for x in in_passes(layer, asked.named("direction", PASSES))
    ]
    sides = (_sided(asked, x, name) for layer in (stem, strided) for x in in_passes(layer, forward) for name in names)
    none = (_unpadded(asked, x, name) for x in in_passes(inner, forward) for name in names)
    return _chosen(asked, (*operations, *itertools.chain.from_iterable((*sides, *none))))


def _sided(asked: Request, even: Conv, name: str) -> Iterable[Contest]:
    """Compare TensorFlow's padding at stride 2, by an operation where the argument cannot express it."""
    odd = same(even)
    other = name if _taken(name, odd) else PADDING.get(name, name)
    if _taken(name, even) and _taken(other, odd):
        cases = (asked.case(even, name), asked.case(odd, other))
        question = "what does padding cost that differs by side?"
        yield Contest(f"pad-sides/{even.name}/variant:{name}", question, "padding", cases)


def same(problem: Conv) -> Conv:
    """Apply TensorFlow's SAME: the least zeros the results need, the odd row and column at the end."""
    lines = problem.lines
    zeros = [max(0, (-(-x.size // x.stride) - 1) * x.stride + (x.taps - 1) * x.dilation + 1 - x.size) for x in lines]
    return _padded_by(problem, [*(x // 2 for x in zeros), *(x - x // 2 for x in zeros)])


def _padded_by(problem: Conv, zeros: Sequence[int]) -> Conv:
    """Return the problem with these numbers of zeros at its sides."""
    sides: dict[str, Any] = dict(zip(SIDES, zeros, strict=True))
    return replace(problem, pad=0, **sides)


def _unpadded(asked: Request, problem: Conv, name: str) -> Iterable[Contest]:
    if _taken(name, problem):
        both, question = (problem, _padded_by(problem, [0] * len(SIDES))), "what do results at the image's edge cost?"
        yield asked.along(f"pad-none/{problem.name}/variant:{name}", question, "work: differs (padding)", both, name)


# The allocator


def heap_cost(asked: Request) -> list[Contest]:
    """Compare heap policies for variants that allocate temporaries in each call."""
    setting = asked.settings[0]
    if setting.heap != "default":
        raise UsageError(f"--heap {setting.heap}: --heap-cost compares the policies; leave one of the two out")
    if "heap" in asked.device.refuses:
        raise NothingWritten(f"--device {setting.device}: {asked.device.refuses['heap']}")
    layers = [as_named(asked, x) for x in (POINTWISE, STEM)]
    settings = [replace(setting, heap=policy) for policy in heap.POLICIES]
    return [
        Contest(
            f"heap/{sized.name}/variant:{name}",
            "what does memory cost that is given back after each call?",
            "heap",
            tuple(_allocating(asked.case(sized, name, each)) for each in settings),
        )
        for layer in layers
        for sized in in_passes(layer, asked.named("direction", PASSES))
        for name in asked.chosen("heap")
        if _taken(name, sized)
    ]


def _allocating(case: Case) -> Case:
    """Skip a case whose heap policy is unavailable: other C library, or a heap set by the environment."""
    try:
        heap.variables(case.setting.heap)
    except UsageError as reason:
        return replace(case, skip=case.skip or str(reason))
    return case


# Filters of one element (C17)


def one_by_one(asked: Request) -> list[Contest]:
    """Compare 1×1 filters as a product with direct sums, then positions of a block's stride."""
    names = asked.chosen("sums")
    layers = [POINTWISE, *([layer(512, 7, 2048, 1)] if asked.every else [])]
    every = tuple(dict.fromkeys(("gemm-1x1", *names)))
    products = contests(asked, layers, "is a 1×1 convolution a product?", every, "1x1")
    strides = (_strided(asked, x, name) for x in (BLOCKS if asked.every else BLOCKS[:1]) for name in names)
    return [*products, *itertools.chain.from_iterable(strides)]


def _strided(asked: Request, block: tuple[int, int, int], name: str) -> Iterable[Contest]:
    """Compare a block's 1×1 and 3×3 layers with the stride on the second and on the first."""
    c, size, k = block
    late = (layer(c, size, k, 1), layer(k, size, k, 3, 2))
    early = (layer(c, size, k, 1, 2), layer(k, size // 2, k, 3))
    four = [as_named(asked, replace(x, n=FEW)) for x in (*late, *early)]
    problems = [replace(x, direction=direction) for direction in asked.named("direction", PASSES) for x in four]
    if _taken(name, *problems):
        cases = tuple(asked.case(x, name) for x in problems)
        pairs = tuple((i + j, i + j + 2) for i in range(0, len(cases), 4) for j in (0, 1))
        question = "a block's stride on the 1×1 or on the 3×3 layer?"
        word = f"stride/{four[0].name}/variant:{name}"
        yield Contest(word, question, "work: differs (where the stride is)", cases, pairs)
