"""cuDNN's convolutions by an algorithm's name, by its heuristic's first choice, and by its search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kernels.errors import Unavailable, UsageError
from kernels.launch import Bind, Launch, held
from kernels.libs import cudnn
from kernels.libs.cudnn import CUDNN
from kernels.ops.conv import fft, tiled
from kernels.ops.conv.columns import refuse_room
from kernels.ops.conv.problem import Conv, spread
from kernels.ops.conv.winograd import Winograd
from kernels.ops.conv.winograd import accepts as for_winograd
from kernels.ops.gemm.cublas import addresses, scratch
from kernels.problem import Work
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant
from kernels.variant import row as provided

PASSES = {"forward": "forward", "dgrad": "backward data", "wgrad": "backward filter"}
KERNELS = 32  # of one call at most, as a guess: transforms and products of a few blocks of the batch
SEARCHED = 1 << 30  # bytes that its search may use without a --workspace
SIZES = (16, 32)  # edges that the tiles of its Fourier transforms may have
WINOGRAD = ("WINOGRAD", "WINOGRAD_NONFUSED")
# (convolution, problem, device, most bytes) -> an algorithm's name; the convolution's arithmetic may be set.
Choose = Callable[[cudnn.Convolution, Conv, Any, int], str]


def layer(problem: Conv) -> cudnn.Layer:
    """Return cuDNN's layer of a problem whose padding is alike above and below, left and right."""
    down, across = problem.lines
    return cudnn.Layer(
        (problem.n, problem.c, problem.h, problem.w),
        (problem.k, problem.c // problem.groups, problem.r, problem.s),
        (problem.n, problem.k, down.outputs, across.outputs),
        (problem.pad_top, problem.pad_left),
        problem.stride,
        problem.dilation,
        problem.groups,
        problem.layout,
    )


def room(device: Any, setting: Setting) -> int:
    """Return the bytes that a chosen algorithm may use beside the operands."""
    return min(SEARCHED, device.limits().memory // 4) if setting.workspace is None else setting.workspace


def prepared(choose: Choose, math: str) -> Callable[[Conv, Any, Setting], Bind]:
    """Return a `prepare` by the algorithm that `choose` returns, requested in arithmetic `math`.

    One trial call is made, because cuDNN refuses some algorithms only then."""

    def prepare(problem: Conv, device: Any, setting: Setting) -> Bind:
        convolution = cudnn.convolution(device.dnn(), PASSES[problem.direction], layer(problem))
        convolution.math(math)
        name = choose(convolution, problem, device, room(device, setting))
        number = convolution.direction.algorithms.index(name)
        nbytes = convolution.workspace(number)
        refuse_room(device, setting, nbytes)
        space = device.allocate(nbytes)
        blocks, unread = scratch(problem, device)
        convolution.launch(number, _places(problem, convolution, unread), (int(space.data.ptr), nbytes))()
        device.sync()
        del blocks
        description = f"{cudnn.kernel()[0]}, {name}"

        def bind(buffers: Sequence[Any]) -> Launch:
            call = convolution.launch(
                number, _places(problem, convolution, addresses(buffers)), (int(space.data.ptr), nbytes)
            )
            return held(call, (space, *buffers), workspace=nbytes, kernels=KERNELS, kernel=(description, None))

        return bind

    return prepare


def named(names: Mapping[str, str]) -> Choose:
    """Return a choice by the algorithm's name for each pass."""
    return lambda convolution, problem, device, most: names[problem.direction]


def guessed(math: str) -> Choose:
    """Return a choice by the heuristic: the first algorithm of cudnnGetConvolution…Algorithm_v7 that fits."""
    return lambda convolution, problem, device, most: _taken(
        convolution, _first(convolution.guessed(), problem, math, most)
    )


def searched(math: str) -> Choose:
    """Return a choice by cudnnFindConvolution…AlgorithmEx, which times all algorithms on scratch operands."""

    def choose(convolution: cudnn.Convolution, problem: Conv, device: Any, most: int) -> str:
        blocks, unread = scratch(problem, device)
        space = device.allocate(most)
        device.sync()
        rows = convolution.searched(_places(problem, convolution, unread), (int(space.data.ptr), most))
        del blocks
        return _taken(convolution, _first(rows, problem, math, most))

    return choose


def _taken(convolution: cudnn.Convolution, row: Mapping[str, Any]) -> str:
    """Set a ranked row's arithmetic, of which cuDNN ranks several, and return the algorithm's name."""
    convolution.math(row["math"])
    return str(row["algorithm"])


def _places(problem: Conv, convolution: cudnn.Convolution, operands: Sequence[int]) -> tuple[int, int, int]:
    """Return the operands' addresses in the order of cuDNN's calls."""
    at, (first, second) = problem.by_letter(operands), convolution.direction.reads
    return at[first], at[second], at[convolution.direction.writes]


def _first(rows: Sequence[Mapping[str, Any]], problem: Conv, math: str, most: int) -> Mapping[str, Any]:
    """Return the first ranked row that works in `most` bytes; `fma` accepts only rows in its arithmetic.

    For `fma`, Winograd tiles are left out if no error bound could distinguish their errors from wrong answers. Raises
    Unavailable."""
    coarse = WINOGRAD if math == "fma" and for_winograd(problem) else ()
    for row in rows:
        name, fits = row["algorithm"], not row["status"] and row["workspace"] <= most
        known = isinstance(name, str) and row["math"] in cudnn.MATHS
        if fits and known and name not in coarse and (math != "fma" or row["math"] == math):
            return row
    raise Unavailable(f"cuDNN has no algorithm that fits {most} bytes of workspace")


def accepts(problem: Conv, *, names: Mapping[str, str] = PASSES) -> str | None:
    """Return why cuDNN cannot do a problem by an algorithm of the passes `names`, or None if it can."""
    if problem.direction not in names:
        return f"cuDNN has this algorithm only for {' and '.join(names)}: use another --direction"
    if problem.pad_top != problem.pad_bottom or problem.pad_left != problem.pad_right:
        return "cuDNN's padding is symmetric: set --pad-bottom as --pad-top, --pad-right as --pad-left"
    return "does not support blocked channels: --layout nchw or nhwc" if problem.layout == "nchw16c" else None


def by_tiles(problem: Conv, *, names: Mapping[str, str]) -> str | None:
    """Return why cuDNN's Winograd tiles cannot do a problem, or None if they can.

    Filters of 5 × 5 take tiles of 13 × 13, whose simulated errors are 300 to 17,000 times a sum's bound, so that no
    bound could distinguish right from wrong."""
    return accepts(problem, names=names) or for_winograd(problem)


def by_transform(problem: Conv) -> Work:
    """Return the work of transforms of full images at the suite's frame lengths, the shortest possible."""
    return at_least(problem) if fft.transformable(problem) else fft.work(problem)


def by_tiled_transform(problem: Conv) -> Work:
    """Return the work of tiled transforms at the tile size with fewer FLOPs."""
    works = [tiled.work(problem, size) for size in SIZES if tiled.accepts(problem, size) is None]
    return min(works, key=lambda work: work.flops) if works else at_least(problem)


def at_least(problem: Conv) -> Work:
    """Return the least work of any algorithm that cuDNN may choose; the kernel's name shows the choice."""
    works = [problem.direct_work()]
    works += [fft.work(problem)] if fft.transformable(problem) is None else []
    works += [TILES.work(problem)] if for_winograd(problem) is None else []
    return Work(min(x.flops for x in works), problem.bytes)


def row(name: str, math: str, choose: Choose, **more: Any) -> Variant[Conv]:
    """Return a row in single precision if `math` is `fma`, else in TF32 with the suffix -tf32."""
    suffix, precision = ("", "fp32") if math == "fma" else ("-tf32", "tf32")
    fields = {"work": Conv.direct_work, "accepts": accepts, "precision": precision} | more
    return provided(CUDNN, f"cudnn-{name}{suffix}", prepared(choose, math), **fields)


def algorithm(name: str, names: Mapping[str, str], math: str = "fma", **more: Any) -> Variant[Conv]:
    return row(name, math, named(names), **{"accepts": partial(accepts, names=names)} | more)


def search(parameter: str) -> Variant[Conv]:
    """Return the variant `cudnn-find:MATH`, as `cudnn-find:default`."""
    if parameter not in ("fma", "default"):
        raise UsageError(f"--variant cudnn-find:{parameter}: write fma or default after the colon")
    return replace(row("find", parameter, searched(parameter), **CHOSEN), name=f"cudnn-find:{parameter}")


TILES = Winograd(("1", "2"))  # F(4, 3), by its workspace; its points are not documented
SMALLER = Winograd(("1",))
PLANES: dict[str, Any] = {"judged": spread}
CHOSEN: dict[str, Any] = {"work": at_least, "growth": 9.0, "judged": spread}  # growth of F(4, 3), coarsest points
GRADIENTS = {"dgrad": "ALGO_0", "wgrad": "ALGO_0"}
LAST = {"dgrad": "ALGO_1", "wgrad": "ALGO_1"}
PRECOMP = {"forward": "IMPLICIT_PRECOMP_GEMM"}
FFT, TILING = dict.fromkeys(PASSES, "FFT"), dict.fromkeys(PASSES, "FFT_TILING")
FUSED, APART = dict.fromkeys(("forward", "dgrad"), "WINOGRAD"), dict.fromkeys(PASSES, "WINOGRAD_NONFUSED")
ROWS: tuple[Variant[Conv], ...] = (
    # First a program's default, then the sums, the usually fastest first.
    row("guessed", "fma", guessed("fma"), roles=(DEFAULT, "search"), **CHOSEN),
    row("guessed", "default", guessed("default"), roles=(), **CHOSEN),
    algorithm("precomp-gemm", PRECOMP, roles=(DEFAULT, "sums", "layouts")),
    algorithm("precomp-gemm", PRECOMP, "default", roles=()),
    algorithm("implicit-gemm", {"forward": "IMPLICIT_GEMM"}, roles=(DEFAULT, "sums", "layouts")),
    algorithm("gemm", {"forward": "GEMM"}),
    algorithm("algo-1", LAST, roles=(DEFAULT, "sums", "layouts")),
    algorithm("algo-1", LAST, "default", roles=()),
    algorithm("algo-0", GRADIENTS, roles=(DEFAULT, "sums", "layouts")),
    algorithm("algo-3", {"wgrad": "ALGO_3"}),
    algorithm("fft", FFT, work=by_transform, roles=(DEFAULT, "fft"), **PLANES),
    algorithm("fft-tiling", TILING, work=by_tiled_transform, roles=(DEFAULT, "fft"), **PLANES),
    algorithm(
        "winograd",
        FUSED,
        accepts=partial(by_tiles, names=FUSED),
        work=SMALLER.work,
        roles=(DEFAULT, "winograd"),
        **PLANES,
    ),
    algorithm(
        "winograd-nonfused",
        APART,
        accepts=partial(by_tiles, names=APART),
        roles=(DEFAULT, "winograd"),
        **{**CHOSEN, "work": TILES.work},
    ),
    row("find", "fma", searched("fma"), roles=(DEFAULT, "search"), **CHOSEN),
)
