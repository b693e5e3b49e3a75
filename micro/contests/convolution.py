"""Contests of micro/conv.py: algorithms per pass, gradients, layouts, strides, cuDNN's engines."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kernels.catalog import find
from kernels.ops.conv.layouts import LAYOUTS
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from micro.planning.benchmark import Request
from micro.planning.contest import Contest
from micro.planning.conv_layers import PREFIX, read

BATCH = 16
EDGES = (3, 5, 7, 9, 11)
BLOCKS = ((256, 56, 128), (512, 28, 256), (1024, 14, 512))  # ResNet-50's with a stride: channels, size, filters
FEW_IMAGES = 4  # batch size of a block's layers
ENGINE_QUESTION = "which engine is fastest, and how much slower is the heuristics' first choice?"
FEW = ("alexnet-s conv2", "resnet-50 conv2 3x3")
ENGINES = {"forward": 82, "dgrad": 86, "wgrad": 76}  # number of engines in cuDNN 9.28; 9.19 has one less of each
# Engines of cuDNN 9.19 that answer in single precision on an H100 (reports/reference/h100/answers.ndjson): others round
# factors to TF32 or to half precision, or need other GPUs.
SINGLE = {
    "forward": (0, 1, 2, 3, 4, 6, 28, 70),
    "dgrad": (0, 1, 2, 4, 5, 7, 25, 50, 74),
    "wgrad": (0, 1, 17, 18, 20, 67),
}
CHOICES = ("cudnn-guessed", "cudnn-find:fma", "cudnn-plan:a", "cudnn-plan:b", "cudnn-plan:fallback")
COARSE = ("cudnn-guessed-tf32", "cudnn-find:default", "cudnn-plan:a:tf32", "cudnn-plan:b:tf32")


def layer(c: int, size: int, k: int, edge: int, stride: int = 1, pad: int | None = None, n: int = BATCH) -> Conv:
    """Return a square layer with equal padding on all sides: half the filter, unless given."""
    around = edge // 2 if pad is None else pad
    return Conv(n, c, size, size, k, edge, edge, stride, around)


# Layers of AlexNet-S and ResNet-50, at batch 16.
LAYERS = {
    "alexnet-s conv1": layer(3, 224, 96, 11, 4, 2),
    "alexnet-s conv2": layer(96, 27, 256, 5),
    "alexnet-s conv3": layer(256, 13, 384, 3),
    "alexnet-s conv4": layer(384, 13, 384, 3),
    "alexnet-s conv5": layer(384, 13, 256, 3),
    "resnet-50 conv1": layer(3, 224, 64, 7, 2, 3),
    "resnet-50 conv2 3x3": layer(64, 56, 64, 3),
    "resnet-50 conv2 1x1": layer(256, 56, 64, 1),
    "resnet-50 conv3 3x3": layer(128, 28, 128, 3),
    "resnet-50 conv4 3x3": layer(256, 14, 256, 3),
    "resnet-50 conv5 3x3": layer(512, 7, 512, 3),
}
FFT_LAYERS = (layer(64, 27, 64, 3), layer(32, 64, 32, 3, n=4))


def contests(asked: Request, problems: Iterable[Conv], question: str, names: Sequence[str], word: str) -> list[Contest]:
    """Build a contest per problem and pass: supported variants against the first that can run here."""
    built = []
    for problem in problems:
        for sized in in_passes(as_named(asked, problem), asked.named("direction", PASSES)):
            fitting = [name for name in names if asked.variants == (name,) or not find(Conv.op, name).accepts(sized)]
            cases = tuple(asked.case(sized, name) for name in fitting)
            runnable = [i for i, case in enumerate(cases) if case.skip is None]
            if len(runnable) < 2:
                continue
            pairs = tuple((runnable[0], i) for i in range(len(cases)) if i != runnable[0])
            built.append(Contest(f"{word}/{sized.name}", question, "variant", cases, pairs))
    return list({contest.name: contest for contest in built}.values())


def in_passes(problem: Conv, passes: Iterable[str]) -> list[Conv]:
    """Return the problem in each of these passes."""
    return [replace(problem, direction=direction) for direction in passes]


def as_named(asked: Request, problem: Conv) -> Conv:
    """Return the problem with the batch size and layout that the command line names."""
    return asked.resized(problem, "n", "layout")


def algorithms(asked: Request) -> list[Contest]:
    """Return contests of algorithms in each pass of a 3×3, a 5×5 and a strided layer, or of all LAYERS."""
    few = ("alexnet-s conv3", "alexnet-s conv2", "alexnet-s conv1")
    problems = [LAYERS[name] for name in (LAYERS if asked.every else few)]
    return contests(asked, problems, "which algorithm and library is fastest?", asked.chosen(), "algorithms")


def fft(asked: Request) -> list[Contest]:
    """Return contests by filter size: direct sums, and FFT with the filter's spectrum computed or cached.

    The question sets the filter sizes; the command line may name image and channels."""
    layers, edges = (FFT_LAYERS, EDGES) if asked.every else (FFT_LAYERS[:1], EDGES[:4])
    resized = _resized(asked, layers)
    sizes = [Conv(x.n, x.c, x.h, x.w, x.k, edge, edge, pad=edge // 2) for x in resized for edge in edges]
    if not asked.every:
        asked = asked.limited(direction=asked.named("direction", PASSES[:1]))
    return contests(asked, sizes, "from which filter size is FFT faster?", asked.chosen("sums", "fft"), "fft")


def _resized(asked: Request, layers: Sequence[Conv]) -> Iterable[Conv]:
    """Return the layers with image sizes and channels that the command line names."""
    named = {name: asked.axes[name] for name in ("c", "h", "w", "k") if name in asked.given}
    sizes = itertools.product(*named.values())
    return dict.fromkeys(replace(x, **dict(zip(named, size, strict=True))) for size in sizes for x in layers)


def winograd(asked: Request) -> list[Contest]:
    """Return contests of Winograd's tile sizes and direct sums, on 3×3 layers."""
    problems = [x for x in LAYERS.values() if (x.r, x.stride) == (3, 1)]
    chosen = problems if asked.every else problems[:1] + problems[3:4]
    return contests(asked, chosen, "how much does Winograd save?", asked.chosen("sums", "winograd"), "winograd")


def backward(asked: Request) -> list[Contest]:
    """Return contests of both gradients against the forward pass, per variant and layer."""
    layers = [as_named(asked, x) for x in (LAYERS["alexnet-s conv3"], LAYERS["alexnet-s conv1"])]
    question = "how much slower are the gradients than the forward pass?"
    built = [
        asked.along(f"passes/{x.name}/variant:{name}", question, "direction", in_passes(x, PASSES), name)
        for name in asked.chosen()
        for x in layers
    ]
    return [contest for contest in built if not any(case.skip for case in contest.cases)]


def layouts(asked: Request) -> list[Contest]:
    """Return contests of NCHW, NHWC and blocks of 16 channels, per variant, layer and pass."""
    layers = [as_named(asked, x) for x in (LAYERS["alexnet-s conv3"], LAYERS["resnet-50 conv2 1x1"])]
    built = []
    for name in asked.chosen("layouts"):
        for sized in (x for problem in layers for x in in_passes(problem, asked.named("direction", PASSES))):
            each = [replace(sized, layout=layout) for layout in asked.named("layout", LAYOUTS)]
            contest = f"layout/{sized.name}/variant:{name}"
            built += _runnable(asked.along(contest, "which memory layout is fastest?", "layout", each, name))
    return built


def _runnable(contest: Contest) -> list[Contest]:
    """Return the contest without skipped cases, or [] if fewer than two are left."""
    cases = tuple(case for case in contest.cases if case.skip is None)
    return [replace(contest, cases=cases)] if len(cases) > 1 else []


def one_by_one(asked: Request) -> list[Contest]:
    """Return contests of 1×1 layers as a GEMM or by direct sums, and of a block's stride position."""
    names = asked.chosen("sums")
    layers = [LAYERS["resnet-50 conv2 1x1"], *([layer(512, 7, 2048, 1)] if asked.every else [])]
    every = tuple(dict.fromkeys(("gemm-1x1", *names)))
    products = contests(asked, layers, "is a 1×1 convolution as fast as a matrix product?", every, "1x1")
    strides = (_strided(asked, x, name) for x in (BLOCKS if asked.every else BLOCKS[:1]) for name in names)
    return [*products, *itertools.chain.from_iterable(strides)]


def _strided(asked: Request, block: tuple[int, int, int], name: str) -> Iterable[Contest]:
    """Yield the contest of a block with its stride on the 1×1 layer against on the 3×3 layer."""
    c, size, k = block
    late = (layer(c, size, k, 1), layer(k, size, k, 3, 2))
    early = (layer(c, size, k, 1, 2), layer(k, size // 2, k, 3))
    four = [as_named(asked, replace(x, n=FEW_IMAGES)) for x in (*late, *early)]
    problems = [replace(x, direction=direction) for direction in asked.named("direction", PASSES) for x in four]
    if all(find(Conv.op, name).accepts(problem) is None for problem in problems):
        cases = tuple(asked.case(x, name) for x in problems)
        pairs = tuple((i + j, i + j + 2) for i in range(0, len(cases), 4) for j in (0, 1))
        question = "is a block's stride faster on the 1×1 or on the 3×3 layer?"
        word = f"stride/{four[0].name}/variant:{name}"
        yield Contest(word, question, "work: differs (where the stride is)", cases, pairs)


def network(asked: Request) -> list[Contest]:
    """Build the contests of `--net`, per layer and pass; a name holds the number of equal layers."""
    net = read(asked.net)
    wanted = asked.named("direction", PASSES)
    built = []
    for layer in net.layers:
        limited = asked.limited(direction=tuple(x.direction for x in layer.passes() if x.direction in wanted))
        word = f"{PREFIX}/{net.name}/{layer.name}/count:{layer.count}"
        built += contests(limited, [layer.problem], f"which algorithm for {layer.name}?", asked.chosen(), word)
    return built


def engines(asked: Request) -> list[Contest]:
    """Build contests of cuDNN's heuristics against its engines; empty if the device is no GPU.

    By default engines known to compute in FP32; with --full all engines, also in TF32."""
    if not asked.device.undivided:
        return []
    layers, full = [LAYERS[name] for name in (LAYERS if asked.every else FEW)], "full" in asked.flags
    built = []
    for direction in asked.named("direction", PASSES):
        request = asked.limited(direction=(direction,))
        names = asked.named("variant", (*CHOICES, *_engines(direction, full)))
        built += contests(request, layers, ENGINE_QUESTION, names, "engines")
        if full and "variant" not in asked.given:
            coarse = [*COARSE, *(f"{name}:tf32" for name in _engines(direction, True))]
            built += contests(request, layers, ENGINE_QUESTION, coarse, "engines-tf32")
    return built


def _engines(direction: str, every: bool) -> Iterator[str]:
    numbers = range(ENGINES[direction]) if every else SINGLE[direction]
    return (f"cudnn-engine:{number}" for number in numbers)
