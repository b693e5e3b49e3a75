"""ncnn's convolutions by the algorithm of its choice, an image at a time, forward alone.

ncnn transforms or packs the filter when the network is loaded: compare with rows that keep the filter's transform.
ncnn does not report its Winograd tile, so the tile is detected from how far the rounding errors of one large input
spread. Results are copied out of ncnn's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs import ncnn
from kernels.libs.ncnn import NCNN
from kernels.ops.conv import cached_filter
from kernels.ops.conv.problem import Conv, spread
from kernels.ops.conv.winograd import ALGORITHMS
from kernels.problem import Array, Work
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant, row

FEW = 8  # channels and filters up to which ncnn uses no Winograd
OPTIONS = {f"use_{x}_convolution": True for x in ("winograd", "winograd23", "winograd43", "winograd63", "sgemm")}
WORK = {algorithm.m: partial(algorithm.work, kept=True) for name, algorithm, *_ in ALGORITHMS}
PROBE, SPIKE, LARGE = 24, 9, 1e7  # rows of a test image; padded row and column, and value, of its large number
# Tile by the first and last row with errors; at the end of the tile before, the large number meets zero taps.
REACHED = {(8, 9): 2, (8, 11): 4, (6, 11): 6}
ROUNDED = 1e-3  # least error, of outputs around 1, that counts as the large number's rounding


def text(problem: Conv) -> str:
    """Return ncnn's network text: the layer after an input, whose size affects ncnn's choice of tile."""
    top, left, bottom, right = problem.pad_top, problem.pad_left, problem.pad_bottom, problem.pad_right
    fields = {0: problem.k, 1: problem.s, 11: problem.r, 2: problem.dilation, 12: problem.dilation}
    fields |= {3: problem.stride, 13: problem.stride, 4: left, 14: top, 15: right, 16: bottom, 5: 0}
    fields[6] = problem.k * problem.c * problem.r * problem.s
    layer = " ".join(f"{number}={value}" for number, value in fields.items())
    size = f"-23330=4,3,{problem.w},{problem.h},{problem.c}"
    return f"7767517\n2 2\nInput image 0 1 x {size}\nConvolution layer 1 1 x y {layer}\n"


def prepare(problem: Conv, device: Any, setting: Setting) -> Bind:
    cached_filter.refuse_cold(setting)
    network = partial(ncnn.net, text(problem), options=OPTIONS, threads=setting.threads)
    m = tile(problem, setting.threads) if by_tiles(problem) is None else 0
    kernel = f"{ncnn.version()}, {f'Winograd F({m},3)' if m else 'no Winograd, im2col and a product allowed'}"
    held = cached_filter.Held()

    def bind(buffers: Sequence[Array]) -> Launch:
        x, w, y = buffers
        images = [ncnn.load().Mat(image) for image in x]

        def run(keep: object = buffers) -> None:
            for image, result in zip(images, y, strict=True):
                np.copyto(result, np.asarray(ncnn.run(held.derived, image)))

        call = cached_filter.keeping(w, lambda: network(weights=w.tobytes()), [run], held)
        return Launch(call, kernel=(kernel, None))

    return bind


def tile(problem: Conv, threads: int, options: Mapping[str, bool] = OPTIONS) -> int:
    """Return m of ncnn's Winograd tile F(m,3), detected in a test output, or 0 without Winograd.

    With a filter that copies the image, only the tile of the large number has errors. Raises Unavailable for another
    pattern."""
    w = np.zeros((problem.k, problem.c, 3, 3), np.float32)
    channels = np.arange(problem.k) % problem.c
    w[np.arange(problem.k), channels, 1, 1] = 1
    x = np.random.default_rng(0).standard_normal((problem.c, PROBE, PROBE)).astype(np.float32)
    x[:, SPIKE - problem.pad_top, SPIKE - problem.pad_left] = LARGE
    pads = ((problem.pad_top, problem.pad_bottom), (problem.pad_left, problem.pad_right))
    want = np.pad(x, ((0, 0), *pads))[channels, 1:-1, 1:-1]
    network = ncnn.net(text(problem), w.tobytes(), options, threads)
    errors = np.abs(np.asarray(ncnn.run(network, ncnn.load().Mat(x))) - want) > ROUNDED
    errors[:, SPIKE - 1, SPIKE - 1] = False
    rows = np.flatnonzero(errors.any(axis=(0, 2)))
    if not len(rows):
        return 0
    m = REACHED.get((int(rows[0]), int(rows[-1])))
    if m is None:
        raise Unavailable(f"{ncnn.version()}: its tiles match none of F(2,3), F(4,3), F(6,3)")
    return m


def accepts(problem: Conv) -> str | None:
    """Return why ncnn cannot do a problem, or None if it can."""
    if problem.direction != "forward":
        return "supports only the forward pass: --direction forward"
    if problem.layout != "nchw":
        return "layout not supported: --layout nchw"
    if problem.groups > 1:
        return "its grouped layers use other kernels: --groups 1"
    return None


def by_tiles(problem: Conv) -> str | None:
    """Return why ncnn uses no Winograd tiles for a problem, or None if it may."""
    if (problem.r, problem.s) != (3, 3):
        return "its Winograd requires 3x3 filters: --r 3 --s 3"
    if problem.stride > 1 or problem.dilation > 1:
        return "its Winograd supports no stride or dilation: --stride 1 --dilation 1"
    if max(problem.c, problem.k) <= FEW:
        return f"it uses Winograd only from {FEW + 1} channels on: --k {FEW + 1}"
    if max(problem.pad_top, problem.pad_left) > SPIKE:
        return f"its tile size cannot be detected with such padding: --pad-top {SPIKE} --pad-left {SPIKE}"
    return None


def least(problem: Conv) -> Work:
    """Return the least work of the algorithms that ncnn may choose."""
    if by_tiles(problem):
        return problem.direct_work()
    return min((work(problem) for work in WORK.values()), key=lambda work: work.flops)


# Growth: the largest error seen, in shares of a direct sum's bounds (kernels/ops/conv/truth.py), on 10 problems of 3 to
# 512 channels and 7 to 224 rows is 3.3, by the largest tile. More than twice that is allowed.
ROWS: tuple[Variant[Conv], ...] = (
    row(
        NCNN,
        "ncnn",
        prepare,
        growth=8.0,
        accepts=accepts,
        work=least,
        constant=("w",),
        judged=spread,
        roles=(DEFAULT, "winograd"),
    ),
)
