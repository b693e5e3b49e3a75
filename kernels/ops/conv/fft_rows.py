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
from kernels.ops.conv import fft
from kernels.ops.conv.problem import Conv, spread
from kernels.variant import DEFAULT, Variant

if TYPE_CHECKING:
    from kernels.launch import Bind, Setting
    from kernels.problem import Array

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


def prepare(problem: Conv, device: Any, setting: Setting, *, library: fft.Library, kept: bool = False) -> Bind:
    alone(setting)
    if kept and setting.cold:
        raise Unavailable("keeps the filter's spectrum, which no launch makes before a cold one: leave --cold out")
    blas = openblas.load("numpy")
    blas.set_threads(1)
    if blas.cgemm is None or blas.get_threads() != 1:
        raise Unavailable(f"{blas.name} has no product of complex numbers on one thread")
    made = fft.plan(problem, device, blas, library)
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
    name: str, provider: str, library: fft.Library, roles: tuple[str, ...], roles_kept: tuple[str, ...], **more: Any
) -> tuple[Variant[Conv], ...]:
    """Each call with the filter's transform; and without."""
    row = Variant(
        f"fft-{name}",
        "cpu",
        provider,
        partial(prepare, library=library),
        accepts=fft.accepts,
        work=fft.work,
        judged=spread,
        python=True,
        roles=roles,
        **more,
    )
    kept = replace(
        row,
        roles=roles_kept,
        name=f"{row.name}-kept",
        prepare=partial(prepare, library=library, kept=True),
        accepts=_keeps,
        work=partial(fft.work, kept=True),
        constant=("w",),
    )
    return row, kept


SCIPY: dict[str, Any] = {"missing": _missing(), "kernel": _scipy_kernel}
FFTW: dict[str, Any] = {"missing": _missing(fftw.missing), "kernel": fftw.kernel}
TORCH: dict[str, Any] = {"missing": _missing(torch_library.missing), "kernel": torch_library.kernel}
ROWS: tuple[Variant[Conv], ...] = (
    *_row("scipy", "scipy", by_scipy, (DEFAULT, "fft"), (DEFAULT, "fft"), **SCIPY),
    *_row("pyfftw", "pyfftw", partial(by_fftw, rigor="measure"), ("fft",), (DEFAULT, "fft"), **FFTW),
    *_row("pyfftw-estimate", "pyfftw", partial(by_fftw, rigor="estimate"), (), (), **FFTW),
    *_row("pyfftw-patient", "pyfftw", partial(by_fftw, rigor="patient"), (), (), **FFTW),
    *_row("torch", "torch", by_torch, ("fft",), ("fft",), **TORCH),
)
