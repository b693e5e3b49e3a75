"""Whole-image transforms whose filters are transformed by a matrix: of a few taps that is less work than a frame of
zeros, and their spectra need not all be there at a time."""

from __future__ import annotations

import ctypes
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build
from kernels.maths import INT64, POINTER
from kernels.ops.conv import fft
from kernels.ops.conv.fft import Plan, Stage
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.ops.conv.staged import letters
from kernels.problem import Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernels.problem import Array

SOURCE = Path(__file__).with_name("dft.c")
AT_ONCE = 1 << 20  # bytes of the filter's spectra of some frequencies; of large ones FEWEST frequencies
FEWEST = 8


class Argument(ctypes.Structure):
    """`dft` of dft.c."""

    _fields_ = (
        *((name, POINTER) for name in ("x", "y", "matrix", "w", "order", "spectra", "images", "results", "gemm")),
        *((name, INT64) for name in ("frequencies", "at_once", "n", "c", "k", "taps", "pass", "wide")),
    )


def at_once(problem: Conv) -> int:
    """Frequencies whose spectra of the filter are there."""
    return min(fft.frequencies(problem), max(FEWEST, AT_ONCE // (8 * problem.k * problem.c)))


def spectra_bytes(problem: Conv) -> int:
    """Of images and results, and of the filter's part."""
    counts = fft.planes(problem)
    return 8 * (fft.frequencies(problem) * (counts["x"] + counts["y"]) + at_once(problem) * counts["w"])


def work(problem: Conv) -> Work:
    """Products of complex numbers, those with the matrix, transforms of images and results."""
    down, across = fft.lengths(problem)
    counts, f = fft.planes(problem), fft.frequencies(problem)
    transforms = 2.5 * down * across * log2(max(2, down * across)) * (counts["x"] + counts["y"])
    product = 8.0 * f * problem.n * problem.c * problem.k
    matrix = 4.0 * f * problem.r * problem.s * counts["w"]
    return Work(product + matrix + transforms, problem.bytes + spectra_bytes(problem))


def matrix(problem: Conv) -> Array:
    """For each frequency the real and the imaginary part of every tap's wave; of a filter's gradient those by which
    its spectrum's parts count in a tap, a conjugate frequency's share with its own."""
    import numpy as np

    down, across = fft.lengths(problem)
    half = across // 2 + 1
    back = problem.direction == "wgrad"
    angles = [
        2 * np.pi / size * np.outer(np.arange(count), np.arange(line.taps) * line.dilation - back * line.before)
        for line, size, count in zip(problem.lines, (down, across), (down, half), strict=True)
    ]
    angle = angles[0][:, None, :, None] + angles[1][None, :, None, :]
    waves = np.stack([np.cos(angle), -np.sin(angle)], axis=2)
    if back:
        twice = np.full(half, 2.0)
        twice[0] = 1
        if across % 2 == 0:
            twice[-1] = 1
        waves *= twice[None, :, None, None, None] / (down * across)
    flat: Array = waves.reshape(2 * down * half, problem.r * problem.s).astype(np.float32)
    return flat


def room(problem: Conv, device: Any) -> dict[str, Array]:
    """Memory beside images' and results' spectra, by the name of its field."""
    counts = fft.planes(problem)
    sizes = {
        "order": 4 * counts["w"] * problem.r * problem.s,
        "spectra": 8 * at_once(problem) * counts["w"],
        "images": 12 * counts["x"],
        "results": 12 * counts["y"],
    }
    return {name: device.allocate(size) for name, size in sizes.items()}


def stages(made: Plan, buffers: dict[str, Array], spare: dict[str, Array], waves: Array) -> tuple[Stage, ...]:
    """Of a call, in order."""
    *inputs, output = letters(made.problem)
    into = [Stage(f"transform {name}", fft.into(made, name, buffers[name])) for name in inputs if name != "w"]
    products = Stage("filter and products", _multiply(made, buffers["w"], {**spare, "matrix": waves}))
    if output == "w":
        return (*into, products)
    return (*into, products, Stage(f"inverse {output}", fft.out(made, output, buffers[output])))


def _multiply(made: Plan, w: Array, memory: dict[str, Array]) -> Callable[[], None]:
    problem = made.problem
    argument = Argument(gemm=made.blas.sgemm, wide=made.blas.wide, taps=problem.r * problem.s)
    for name, array in {**memory, **made.whole, "w": w}.items():
        setattr(argument, name, array.ctypes.data)
    sizes = {"frequencies": fft.frequencies(problem), "at_once": at_once(problem)}
    sizes |= {"n": problem.n, "c": problem.c, "k": problem.k, "pass": PASSES.index(problem.direction)}
    for name, size in sizes.items():
        setattr(argument, name, size)
    product, place = build.load(SOURCE).dft_products, ctypes.byref(argument)
    product.restype = None

    def run(keep: object = (made, argument, w, memory)) -> None:
        product(place)

    return run
