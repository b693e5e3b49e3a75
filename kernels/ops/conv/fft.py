"""Convolution by Fourier transforms of full images; all three passes use one frame size.

Circular correlation of a frame equals correlation with zeros around the image if the frame has room for the padding
of one side, where the other side's padding lies too. Images x, filters w and results y, each at the origin of a
frame of zeros, have the spectra X, W, Y; then Y = X Wᴴ, X = Y W, W = Yᴴ X for each frequency, and the answer begins
in its frame at the padding (Mathieu, Henaff, LeCun 2013, arXiv:1312.5851)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log2
from pathlib import Path
from typing import Any, TypeAlias

from kernels import build
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs import fftw, openblas
from kernels.libs import torch as torch_library
from kernels.libs.cblas import Blas
from kernels.libs.fftw import FFTW
from kernels.libs.torch import TORCH
from kernels.maths import FLOAT, INT64, POINTER, alone
from kernels.ops.conv import cached_filter
from kernels.ops.conv.cached_filter import Held
from kernels.ops.conv.problem import Conv, spread
from kernels.ops.conv.shape import PASSES
from kernels.ops.conv.taps import Line
from kernels.problem import Array, Work
from kernels.provider import SCIPY, Provider, pocketfft
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant, row

Prepare: TypeAlias = "Callable[[Conv, Any, Setting], Bind]"
Roles: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...]]"
Stages: TypeAlias = "dict[str, Callable[[], None]]"  # stages by name, in order
SOURCE = Path(__file__).with_name("fft.c")
BLOCK = 1 << 19  # bytes of frames in a block, so that they and their spectra fit a second-level cache
TILE = 8  # planes whose spectra are transposed at a time
MOST = 4 << 30  # most bytes of spectra

# (frames, spectra, inverse) -> a function that transforms all frames, or all spectra back, and returns the result.
Library: TypeAlias = "Callable[[Array, Array, bool], Callable[[], Array]]"


class Products(ctypes.Structure):
    """C struct `products` of fft.c."""

    _fields_ = (
        *((name, POINTER) for name in ("x", "w", "y", "gemm")),
        *((name, INT64) for name in ("frequencies", "n", "c", "k", "pass", "wide", "added")),
    )


def smooth(least: int) -> int:
    """Return the least length from `least` on whose prime factors are 2, 3 and 5, fast in all libraries."""
    while True:
        rest = least
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return least
        least += 1


def length(line: Line) -> int:
    """Return the length of a frame that holds image, result and filter, and the wider of both paddings."""
    return smooth(max(line.size + max(line.before, line.after), line.outputs, (line.taps - 1) * line.dilation + 1))


def lengths(problem: Conv) -> tuple[int, int]:
    """Return rows and columns of a frame."""
    down, across = problem.lines
    return length(down), length(across)


def frequencies(problem: Conv) -> int:
    """Return the frequencies of a frame's spectrum."""
    return Extent(lengths(problem), planes(problem)).frequencies


def planes(problem: Conv) -> dict[str, int]:
    """Return the number of planes of images, filters and results, by the last letter of the operand."""
    return {"x": problem.n * problem.c, "w": problem.k * problem.c, "y": problem.n * problem.k}


def spectra_bytes(problem: Conv) -> int:
    """Return the bytes of all spectra: the workspace, except a block of frames and its spectra."""
    return 8 * frequencies(problem) * sum(planes(problem).values())


def work(problem: Conv, kept: bool = False) -> Work:
    """Return the work of transforms (not the filter's if `kept`) and products; bytes include all spectra."""
    down, across = lengths(problem)
    of_plane = 2.5 * down * across * log2(max(2, down * across))
    transforms = sum(count for name, count in planes(problem).items() if not (kept and name == "w")) * of_plane
    products = 8.0 * frequencies(problem) * problem.n * problem.c * problem.k
    return Work(transforms + products, problem.bytes + spectra_bytes(problem))


def transformable(problem: Conv) -> str | None:
    """Return why Fourier transforms cannot or should not do a problem, or None if they may."""
    if problem.stride > 1:
        return "the transform computes all positions, most of which a stride discards: --stride 1"
    if problem.groups > 1:
        return "its products per frequency do not support groups: --groups 1"
    if problem.layout != "nchw":
        return "its transforms need contiguous planes: --layout nchw"
    return None


def accepts(problem: Conv) -> str | None:
    """Return why transforms of full images cannot or should not do a problem, or None if they may."""
    if why := transformable(problem):
        return why
    if spectra_bytes(problem) > MOST:
        return f"its spectra take {spectra_bytes(problem) / 2**30:.1f} GiB: use a smaller --n, --c or --k"
    return None


def functions() -> ctypes.CDLL:
    """Return the library of fft.c with declared functions. Raises BuildError, Unavailable."""
    library = build.load(SOURCE)
    moves = library.fft_by_frequency, library.fft_by_plane
    for function in moves:
        function.argtypes = (POINTER, POINTER, *[INT64] * 3)
    library.fft_frame_in.argtypes = (POINTER, POINTER, *[INT64] * 9)
    library.fft_frame_out.argtypes = (POINTER, POINTER, *[INT64] * 8, FLOAT)
    for function in (*moves, library.fft_frame_in, library.fft_frame_out, library.fft_products):
        function.restype = None
    return library


@dataclass(frozen=True)
class Extent:
    """Frames of a plan: (rows, columns) of a frame, and the number of planes by operand."""

    lengths: tuple[int, int]
    planes: dict[str, int]

    @property
    def frequencies(self) -> int:
        """Frequencies of a frame's spectrum; the others are conjugates of these."""
        return self.lengths[0] * (self.lengths[1] // 2 + 1)


@dataclass(frozen=True)
class Plan:
    """Memory and transforms of one problem."""

    problem: Conv
    extent: Extent
    blas: Blas
    c: Any  # library of fft.c
    frames: Array  # of one block
    spectra: Array  # of one block
    by_frequency: dict[str, Array]  # spectra by operand, ordered by frequency, then plane
    blocks: dict[str, int]  # planes of a block, by operand
    transforms: dict[str, Callable[[], Array]]  # of a block's frames, by operand; inverse for the output

    @property
    def workspace(self) -> int:
        return int(self.frames.nbytes + self.spectra.nbytes + sum(x.nbytes for x in self.by_frequency.values()))


def plan(problem: Conv, device: Any, blas: Blas, library: Library, extent: Extent | None = None) -> Plan:
    """Allocate memory and plan the library's transforms, for whole images unless `extent` is given."""
    extent = extent or Extent(lengths(problem), planes(problem))
    down, across = extent.lengths
    counts, most = extent.planes, max(TILE, BLOCK // (4 * down * across))
    evenly = {name: -(-count // -(-count // most)) for name, count in counts.items()}
    blocks = {name: -(-each // TILE) * TILE for name, each in evenly.items()}
    largest = max(blocks.values())
    half = across // 2 + 1
    frames = device.allocate(4 * largest * down * across).view(np.float32).reshape(largest, down, across)
    spectra = device.allocate(8 * largest * down * half).view(np.complex64).reshape(largest, down, half)
    by_frequency = {name: device.allocate(8 * down * half * count).view(np.complex64) for name, count in counts.items()}
    output = problem.outputs[0].name[-1]
    transforms = {name: library(frames[:count], spectra[:count], name == output) for name, count in blocks.items()}
    frames[...] = 0  # planning may overwrite them
    spectra[...] = 0
    return Plan(problem, extent, blas, functions(), frames, spectra, by_frequency, blocks, transforms)


def stages(planned: Plan, buffers: dict[str, Array]) -> Stages:
    """Return the stages of a call, in order; `buffers`: operands by the last letter of their names."""
    *inputs, output = planned.problem.letters
    transforms = {f"transform {name}": into(planned, name, buffers[name]) for name in inputs}
    return transforms | {"products": _multiply(planned), f"inverse {output}": out(planned, output, buffers[output])}


def _blocks(planned: Plan, name: str) -> list[tuple[int, int]]:
    """Return the first plane and the number of planes of each block."""
    count, size = planned.extent.planes[name], planned.blocks[name]
    return [(first, min(size, count - first)) for first in range(0, count, size)]


def _frame(planned: Plan, name: str, array: Array) -> tuple[int, int, int, int, int]:
    """Return rows and columns of a plane and of its frame, and a plane's element step in the frame."""
    step = planned.problem.dilation if name == "w" else 1
    return (*array.shape[2:], *planned.extent.lengths, step)


def into(planned: Plan, name: str, array: Array) -> Callable[[], None]:
    """Return a call that transforms planes to spectra in blocks; a partial last block keeps old planes."""
    problem, blocks, frame = planned.problem, _blocks(planned, name), _frame(planned, name, array)
    order = (planned.extent.planes[name], 1)
    if name == "w" and problem.direction == "forward":  # a flipped plane has the conjugate spectrum
        order, frame = (problem.k, problem.c), (*frame[:4], -problem.dilation)
    transform, f, count = planned.transforms[name], planned.extent.frequencies, planned.extent.planes[name]
    frames, target, c = planned.frames[: planned.blocks[name]], planned.by_frequency[name].ctypes.data, planned.c
    at, place = frames.ctypes.data, array.ctypes.data

    def run(keep: object = (planned, array)) -> None:
        frames.fill(0)
        for first, here in blocks:
            c.fft_frame_in(place, at, first, here, *order, *frame)
            spectra = transform()  # may be the library's memory, valid while referenced
            c.fft_by_frequency(spectra.ctypes.data, target + 8 * first, here, f, count)

    return run


def out(planned: Plan, name: str, array: Array, places: tuple[int, int] | None = None) -> Callable[[], None]:
    """Return a call that transforms spectra back to planes, which begin at `places` in a frame if given."""
    blocks, frame = _blocks(planned, name), _frame(planned, name, array)
    transform, f, count = planned.transforms[name], planned.extent.frequencies, planned.extent.planes[name]
    source, spectra, c = planned.by_frequency[name].ctypes.data, planned.spectra.ctypes.data, planned.c
    starts = (_start(planned.problem, *of) for of in zip(planned.problem.lines, planned.extent.lengths, strict=True))
    end = (*frame, *(places or starts), 1 / (frame[2] * frame[3]))
    plane, at = 4 * frame[0] * frame[1], array.ctypes.data

    def run(keep: object = (planned, array)) -> None:
        for first, here in blocks:
            c.fft_by_plane(source + 8 * first, spectra, here, f, count)
            frames = transform()
            c.fft_frame_out(frames.ctypes.data, at + first * plane, here, *end)

    return run


def _start(problem: Conv, line: Line, size: int) -> int:
    """Return the place in a frame at which the answer begins."""
    return (line.before if problem.direction == "dgrad" else -line.before) % size


def products(planned: Plan) -> Products:
    """Return the argument of fft_products for all planes."""
    problem = planned.problem
    argument = Products(gemm=planned.blas.cgemm, frequencies=planned.extent.frequencies, wide=planned.blas.wide)
    for name, spectra in planned.by_frequency.items():
        setattr(argument, name, spectra.ctypes.data)
    for name in "nck":
        setattr(argument, name, getattr(problem, name))
    setattr(argument, "pass", PASSES.index(problem.direction))
    return argument


def _multiply(planned: Plan) -> Callable[[], None]:
    argument = products(planned)
    product, place = planned.c.fft_products, ctypes.byref(argument)

    def run(keep: object = (planned, argument)) -> None:
        product(place)

    return run


def by_scipy(frames: Array, spectra: Array, inverse: bool) -> Callable[[], Array]:
    """Return a transform by SciPy's pocketfft, which allocates its results."""
    from scipy import fft as scipy_fft

    if inverse:
        return partial(scipy_fft.irfft2, spectra, s=frames.shape[1:], norm="forward", overwrite_x=True, workers=1)
    return partial(scipy_fft.rfft2, frames, workers=1)


def by_fftw(frames: Array, spectra: Array, inverse: bool, *, rigor: str) -> Callable[[], Array]:
    execute = fftw.plan(frames, spectra, inverse, rigor).execute
    result = frames if inverse else spectra

    def transform() -> Array:
        execute()
        return result

    return transform


def by_torch(frames: Array, spectra: Array, inverse: bool) -> Callable[[], Array]:
    """Return a transform by PyTorch's MKL with allocated results; writing into `out` would cost more."""
    torch = torch_library.on_threads(1)
    of, back = torch.from_numpy(frames), torch.from_numpy(spectra)
    size = frames.shape[1:]

    def transform() -> Array:
        result = torch.fft.irfft2(back, s=size, norm="forward") if inverse else torch.fft.rfft2(of)
        array: Array = result.contiguous().numpy()
        return array

    return transform


def blas_of_one() -> Blas:
    """Return NumPy's OpenBLAS on one thread. Raises Unavailable."""
    blas = openblas.load("numpy")
    blas.set_threads(1)
    if blas.cgemm is None or blas.get_threads() != 1:
        raise Unavailable(f"{blas.name} has no single-threaded complex product (cgemm)")
    return blas


def bound(problem: Conv, workspace: int, stages: Callable[[dict[str, Array]], Stages], kept: bool = False) -> Bind:
    """Return a bind that runs all stages in order; if `kept`, only a changed filter is transformed."""
    held = Held()

    def bind(buffers: Sequence[Array]) -> Launch:
        named = problem.by_letter(buffers)
        runs = dict(stages(named))
        transform = runs.pop("transform w") if kept else None
        every = tuple(runs.values())
        if transform is None:
            return Launch(lambda: [run() for run in every], workspace=workspace)
        return Launch(cached_filter.keeping(named["w"], transform, every, held), workspace=workspace)

    return bind


def prepare(problem: Conv, device: Any, setting: Setting, *, library: Library, kept: bool = False) -> Bind:
    alone(setting)
    if kept:
        cached_filter.refuse_cold(setting)
    planned = plan(problem, device, blas_of_one(), library)
    return bound(problem, planned.workspace, partial(stages, planned), kept)


def keeping(
    each: Variant[Conv], prepare: Prepare, work: Callable[[Conv], Work], roles: tuple[str, ...]
) -> Variant[Conv]:
    """Return the row `each` as its variant `-kept`, which caches the filter's spectrum."""

    def accepts(problem: Conv) -> str | None:
        return cached_filter.reads_filter(problem) or each.accepts(problem)

    return replace(
        each, name=f"{each.name}-kept", prepare=prepare, accepts=accepts, work=work, roles=roles, constant=("w",)
    )


def beside_openblas(provider: Provider) -> Provider:
    """Return a transform provider that is missing also if OpenBLAS, used for the products, is missing."""
    return replace(provider, missing=lambda: provider.missing() or openblas.missing("numpy"))


def _rows(provider: Provider, name: str, library: Library, roles: Roles = ((), ())) -> tuple[Variant[Conv], ...]:
    """Return the row that transforms the filter in each call, and the row that keeps its spectrum."""
    how = partial(prepare, library=library)
    each = row(provider, f"fft-{name}", how, accepts=accepts, work=work, judged=spread, roles=roles[0])
    return each, keeping(each, partial(how, kept=True), partial(work, kept=True), roles[1])


ALWAYS, ASKED = (DEFAULT, "fft"), ("fft",)
BY_SCIPY = beside_openblas(replace(SCIPY, kernel=partial(pocketfft, "scipy")))
BY_PYFFTW, BY_TORCH = beside_openblas(FFTW), beside_openblas(TORCH)
SEARCHED: dict[str, Library] = {rigor: partial(by_fftw, rigor=rigor) for rigor in fftw.RIGORS}
ROWS: tuple[Variant[Conv], ...] = (
    *_rows(BY_SCIPY, "scipy", by_scipy, (ALWAYS, ALWAYS)),
    *_rows(BY_PYFFTW, "pyfftw", SEARCHED["measure"], (ASKED, ALWAYS)),
    *_rows(BY_PYFFTW, "pyfftw-estimate", SEARCHED["estimate"]),
    *_rows(BY_PYFFTW, "pyfftw-patient", SEARCHED["patient"]),
    *_rows(BY_TORCH, "torch", by_torch, ((), ASKED)),
)
