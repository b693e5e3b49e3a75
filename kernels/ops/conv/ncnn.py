"""ncnn's convolutions by the options that allow an algorithm, an image at a time, forward alone.

ncnn transforms or packs the filter when the network is loaded: compare with rows that keep the filter's transform.
ncnn's options do not decide the Winograd tile alone (for an image of unknown size it takes F(2,3) where only F(6,3)
is allowed), so the tile is detected from where the roundings of one large number spread. Results are copied out of
ncnn's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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

FEW = 8  # channels of images and of results up to which it takes no Winograd
TILES = {2: "use_winograd23_convolution", 4: "use_winograd43_convolution", 6: "use_winograd63_convolution"}
WORK = {algorithm.m: partial(algorithm.work, kept=True) for name, algorithm, *_ in ALGORITHMS}
PROBE, SPIKE, LARGE = 24, 9, 1e7  # rows of an image, and place, padding included, and size of its large number
# Tile by the first and last row that roundings reach; at the end of the tile before, the large number meets zero taps.
REACHED = {(8, 9): 2, (8, 11): 4, (6, 11): 6}
ROUNDED = 1e-3  # errors of numbers around 1 beside the large one


@dataclass(frozen=True)
class Choice:
    """Algorithms that ncnn may take: Winograd tiles, if any, and products of im2col."""

    tiles: tuple[int, ...] = ()
    products: bool = True
    tile: int = 0  # the only tile accepted; 0: any

    @property
    def options(self) -> dict[str, bool]:
        tiles = {option: m in self.tiles for m, option in TILES.items()}
        return {"use_winograd_convolution": bool(self.tiles), "use_sgemm_convolution": self.products, **tiles}


def text(problem: Conv) -> str:
    """Return the network: an input with its size, which decides among ncnn's tiles, and the layer."""
    top, left, bottom, right = problem.pad_top, problem.pad_left, problem.pad_bottom, problem.pad_right
    fields = {0: problem.k, 1: problem.s, 11: problem.r, 2: problem.dilation, 12: problem.dilation}
    fields |= {3: problem.stride, 13: problem.stride, 4: left, 14: top, 15: right, 16: bottom, 5: 0}
    fields[6] = problem.k * problem.c * problem.r * problem.s
    layer = " ".join(f"{number}={value}" for number, value in fields.items())
    size = f"-23330=4,3,{problem.w},{problem.h},{problem.c}"
    return f"7767517\n2 2\nInput image 0 1 x {size}\nConvolution layer 1 1 x y {layer}\n"


def prepare(problem: Conv, device: Any, setting: Setting, *, choice: Choice) -> Bind:
    cached_filter.refuse_cold(setting)
    network = partial(ncnn.net, text(problem), options=choice.options, threads=setting.threads)
    kernel = _named(problem, choice, setting.threads)
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


def _named(problem: Conv, choice: Choice, threads: int) -> str:
    """Return the kernel's name with its detected tile. Raises Unavailable if it is not the requested tile."""
    m = tile(problem, choice, threads) if choice.tiles and by_tiles(problem) is None else 0
    if choice.tile and m != choice.tile:
        other = f"F({m},3)" if m else "no tiles"
        raise Unavailable(f"{ncnn.version()} takes {other} for this layer, not F({choice.tile},3)")
    how = "im2col and a product" if choice.products else "direct sums"
    return f"{ncnn.version()}, {f'Winograd F({m},3)' if m else f'no Winograd, {how} allowed'}"


def tile(problem: Conv, choice: Choice, threads: int) -> int:
    """Return the outputs of the Winograd tile that ncnn takes, detected in an answer; 0 without tiles.

    A filter that copies the image errs only within the tile of one large number. Raises Unavailable for another
    pattern."""
    w = np.zeros((problem.k, problem.c, 3, 3), np.float32)
    channels = np.arange(problem.k) % problem.c
    w[np.arange(problem.k), channels, 1, 1] = 1
    x = np.random.default_rng(0).standard_normal((problem.c, PROBE, PROBE)).astype(np.float32)
    x[:, SPIKE - problem.pad_top, SPIKE - problem.pad_left] = LARGE
    pads = ((problem.pad_top, problem.pad_bottom), (problem.pad_left, problem.pad_right))
    want = np.pad(x, ((0, 0), *pads))[channels, 1:-1, 1:-1]
    network = ncnn.net(text(problem), w.tobytes(), choice.options, threads)
    errors = np.abs(np.asarray(ncnn.run(network, ncnn.load().Mat(x))) - want) > ROUNDED
    errors[:, SPIKE - 1, SPIKE - 1] = False
    rows = np.flatnonzero(errors.any(axis=(0, 2)))
    if not len(rows):
        return 0
    m = REACHED.get((int(rows[0]), int(rows[-1])))
    if m is None:
        raise Unavailable(f"{ncnn.version()}: its tiles are none of F(2,3), F(4,3), F(6,3)")
    return m


def accepts(problem: Conv) -> str | None:
    """Return why ncnn cannot do a problem, or None."""
    if problem.direction != "forward":
        return "it has a forward pass alone: --direction forward"
    if problem.layout != "nchw":
        return "it has no such layout: --layout nchw"
    if problem.groups > 1:
        return "its layers of groups are others: --groups 1"
    return None


def by_tiles(problem: Conv) -> str | None:
    """Return why ncnn takes no Winograd tiles for a problem, or None."""
    if (problem.r, problem.s) != (3, 3):
        return "its Winograd is for filters of 3x3: --r 3 --s 3"
    if problem.stride > 1 or problem.dilation > 1:
        return "its Winograd takes no strides or dilation: --stride 1 --dilation 1"
    if max(problem.c, problem.k) <= FEW:
        return f"it takes Winograd from {FEW + 1} channels on: --k {FEW + 1}"
    if max(problem.pad_top, problem.pad_left) > SPIKE:
        return f"which of its tiles it takes is not seen behind such padding: --pad-top {SPIKE} --pad-left {SPIKE}"
    return None


def accepts_tiles(problem: Conv) -> str | None:
    return accepts(problem) or by_tiles(problem)


def least(problem: Conv) -> Work:
    """Return the least work of the algorithms that ncnn may choose."""
    if by_tiles(problem):
        return problem.direct_work()
    return min((work(problem) for work in WORK.values()), key=lambda work: work.flops)


def _row(name: str, choice: Choice, growth: float = 1.0, roles: tuple[str, ...] = (), **more: Any) -> Variant[Conv]:
    more = {"accepts": accepts} | more
    return row(NCNN, name, partial(prepare, choice=choice), growth=growth, constant=("w",), roles=roles, **more)


# Largest errors in shares of the bounds of a direct sum (kernels/ops/conv/truth.py), of 10 problems of 3 to 512
# channels and 7 to 224 rows: 0.1, 0.43, 3.3. More than twice that is allowed.
GROWTH = {2: 1.0, 4: 2.0, 6: 8.0}
WINOGRAD: dict[int, dict[str, Any]] = {
    m: {"accepts": accepts_tiles, "work": work, "judged": spread} for m, work in WORK.items()
}
ROWS: tuple[Variant[Conv], ...] = (
    _row("ncnn", Choice((2, 4, 6)), GROWTH[6], (DEFAULT, "winograd"), work=least, judged=spread),
    *(_row(f"ncnn-winograd-{m}x3", Choice((m,), tile=m), GROWTH[m], **WINOGRAD[m]) for m in TILES),
    _row("ncnn-sgemm", Choice()),
    _row("ncnn-direct", Choice(products=False), work=Conv.direct_work),
)
