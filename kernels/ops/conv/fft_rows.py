"""Convolution by transforms of whole images: SciPy's, FFTW's by the length of its search, PyTorch's; with the filter's
spectrum made in each call, or kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kernels.errors import Unavailable
from kernels.launch import Launch
from kernels.libs import fftw, openblas
from kernels.libs import torch as torch_library
from kernels.maths import alone
from kernels.ops.conv import dft, fft
from kernels.ops.conv.problem import Conv, spread
from kernels.variant import DEFAULT, Variant

if TYPE_CHECKING:
    from kernels.launch import Bind, Setting
    from kernels.libs.cblas import Blas
    from kernels.problem import Array

    Roles = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]

SAMPLES = 64  # elements of a kept filter by which another one is told at the same place


def by_scipy(frames: Array, spectra: Array, inverse: bool) -> Callable[[], Array]:
    """pocketfft; it allocates its results."""
    from scipy import fft as scipy_fft

    if inverse:
        return partial(scipy_fft.irfft2, spectra, s=frames.shape[1:], norm="forward", overwrite_x=True, workers=1)
    return partial(scipy_fft.rfft2, frames, workers=1)


def by_fftw(frames: Array, spectra: Array, inverse: bool, *, rigor: str) -> Callable[[], Array]:
    execute, result = fftw.plan(frames, spectra, inverse, rigor), frames if inverse else spectra

    def transform() -> Array:
        execute()
        return result

    return transform


def by_torch(frames: Array, spectra: Array, inverse: bool) -> Callable[[], Array]:
    """MKL's; it allocates its results, which costs less than to write into `out`."""
    torch = torch_library.load()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    of, back = torch.from_numpy(frames), torch.from_numpy(spectra)
    size = frames.shape[1:]

    def transform() -> Array:
        result = torch.fft.irfft2(back, s=size, norm="forward") if inverse else torch.fft.rfft2(of)
        array: Array = result.contiguous().numpy()
        return array

    return transform


def _blas() -> Blas:
    """On one thread. Raises Unavailable."""
    blas = openblas.load("numpy")
    blas.set_threads(1)
    if blas.cgemm is None or blas.get_threads() != 1:
        raise Unavailable(f"{blas.name} has no product of complex numbers on one thread")
    return blas


def prepare(problem: Conv, device: Any, setting: Setting, *, library: fft.Library, kept: bool = False) -> Bind:
    alone(setting)
    if kept and setting.cold:
        raise Unavailable("keeps the filter's spectrum, which no launch makes before a cold one: leave --cold out")
    made = fft.plan(problem, device, _blas(), library)
    letters = [operand.name[-1] for operand in problem.operands()]
    held: list[object] = [None]  # the filter whose spectrum is there, of all launches

    def bind(buffers: Sequence[Array]) -> Launch:
        parts = fft.stages(made, dict(zip(letters, buffers, strict=True)))
        runs = [part.run for part in parts]
        if not kept:
            return Launch(lambda: [run() for run in runs], workspace=made.workspace)
        transform = runs.pop(letters.index("w"))
        return Launch(_keeping(buffers[letters.index("w")], transform, runs, held), workspace=made.workspace)

    return bind


def by_matrix(problem: Conv, device: Any, setting: Setting, *, library: fft.Library) -> Bind:
    """The filter's transform, or its gradient's, as a product."""
    alone(setting)
    made = fft.plan(problem, device, _blas(), library, "xy")
    spare, waves = dft.room(problem, device), dft.matrix(problem)
    letters = [operand.name[-1] for operand in problem.operands()]
    workspace = made.workspace + waves.nbytes + sum(x.nbytes for x in spare.values())

    def bind(buffers: Sequence[Array]) -> Launch:
        parts = dft.stages(made, dict(zip(letters, buffers, strict=True)), spare, waves)
        runs = [part.run for part in parts]
        return Launch(lambda: [run() for run in runs], workspace=workspace)

    return bind


def _keeping(
    w: Array, transform: Callable[[], object], runs: Sequence[Callable[[], object]], held: list[object]
) -> Callable[[], object]:
    """A call that transforms the filter only where another one was transformed last."""
    flat = w.reshape(-1)
    some, where = flat[:: max(1, flat.size // SAMPLES)], w.ctypes.data

    def call() -> None:
        filter_now = where, some.tobytes()
        if held[0] != filter_now:
            transform()
            held[0] = filter_now
        for run in runs:
            run()

    return call


def _keeps(problem: Conv) -> str | None:
    if problem.direction == "wgrad":
        return "reads no filter whose spectrum could be kept: --direction forward or dgrad"
    return fft.accepts(problem)


def _scipy_kernel() -> tuple[str | None, str | None]:
    import scipy

    return f"scipy {scipy.__version__}, pocketfft", None


def _missing(library: Callable[[], str | None] = lambda: None) -> Callable[[], str | None]:
    return lambda: library() or openblas.missing("numpy")


def _row(
    name: str, provider: str, library: fft.Library, roles: Roles = ((), (), ()), **more: Any
) -> tuple[Variant[Conv], ...]:
    """Each call with the filter's transform; without; with its transform as a product."""
    row = Variant(
        f"fft-{name}",
        "cpu",
        provider,
        partial(prepare, library=library),
        accepts=fft.accepts,
        work=fft.work,
        judged=spread,
        python=True,
        roles=roles[0],
        **more,
    )
    kept = replace(
        row,
        roles=roles[1],
        name=f"{row.name}-kept",
        prepare=partial(prepare, library=library, kept=True),
        accepts=_keeps,
        work=partial(fft.work, kept=True),
        constant=("w",),
    )
    matrix = replace(
        row, roles=roles[2], name=f"{row.name}-dft", prepare=partial(by_matrix, library=library), work=dft.work
    )
    return row, kept, matrix


ALWAYS, ASKED = (DEFAULT, "fft"), ("fft",)
SCIPY: dict[str, Any] = {"missing": _missing(), "kernel": _scipy_kernel}
FFTW: dict[str, Any] = {"missing": _missing(fftw.missing), "kernel": fftw.kernel}
TORCH: dict[str, Any] = {"missing": _missing(torch_library.missing), "kernel": torch_library.kernel}
ROWS: tuple[Variant[Conv], ...] = (
    *_row("scipy", "scipy", by_scipy, (ALWAYS, ALWAYS, ASKED), **SCIPY),
    *_row("pyfftw", "pyfftw", partial(by_fftw, rigor="measure"), (ASKED, ALWAYS, ASKED), **FFTW),
    *_row("pyfftw-estimate", "pyfftw", partial(by_fftw, rigor="estimate"), **FFTW),
    *_row("pyfftw-patient", "pyfftw", partial(by_fftw, rigor="patient"), **FFTW),
    *_row("torch", "torch", by_torch, ((), ASKED, ()), **TORCH),
)
