"""Convolution by transforms of whole images: SciPy's, FFTW's by the length of its search, PyTorch's; with the filter's
spectrum made in each call, or kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kernels.errors import Unavailable
from kernels.launch import Launch
from kernels.libs import fftw, openblas, pocketfft
from kernels.libs import torch as torch_library
from kernels.maths import alone
from kernels.ops.conv import dft, fft
from kernels.ops.conv import kept as kept_of
from kernels.ops.conv.kept import Held
from kernels.ops.conv.problem import Conv, spread
from kernels.ops.conv.staged import Staged, letters
from kernels.variant import DEFAULT, Variant

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.libs.cblas import Blas
    from kernels.problem import Array, Work
    from kernels.setting import Setting

    Prepare = Callable[[Conv, Any, Setting], Bind]
    Roles = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    Parts = Callable[[dict[str, Array]], tuple[fft.Stage, ...]]  # of a call, of operands by their letter


def by_scipy(frames: Array, spectra: Array, inverse: bool) -> Callable[[], Array]:
    """pocketfft; it allocates its results."""
    from scipy import fft as scipy_fft

    if inverse:
        return partial(scipy_fft.irfft2, spectra, s=frames.shape[1:], norm="forward", overwrite_x=True, workers=1)
    return partial(scipy_fft.rfft2, frames, workers=1)


def by_fftw(frames: Array, spectra: Array, inverse: bool, *, rigor: str, aligned: bool = True) -> Callable[[], Array]:
    execute = fftw.plan(frames, spectra, inverse, rigor, aligned).execute
    result = frames if inverse else spectra

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


def blas_of_one() -> Blas:
    """On one thread. Raises Unavailable."""
    blas = openblas.load("numpy")
    blas.set_threads(1)
    if blas.cgemm is None or blas.get_threads() != 1:
        raise Unavailable(f"{blas.name} has no product of complex numbers on one thread")
    return blas


def bound(problem: Conv, workspace: int, parts: Parts, kept: bool = False) -> Bind:
    """A call of all parts, one after another; of the filter's transform only where there is another filter."""
    names = letters(problem)
    held = Held()

    def bind(buffers: Sequence[Array]) -> Launch:
        named = dict(zip(names, buffers, strict=True))
        runs = {part.name: part.run for part in parts(named)}
        transform = runs.pop("transform w") if kept else None
        every = tuple(runs.values())
        if transform is None:
            return Launch(lambda: [run() for run in every], workspace=workspace)
        return Launch(kept_of.keeping(named["w"], transform, every, held), workspace=workspace)

    return bind


def prepare(problem: Conv, device: Any, setting: Setting, *, library: fft.Library, kept: bool = False) -> Bind:
    alone(setting)
    if kept:
        kept_of.refuse_cold(setting)
    made = fft.plan(problem, device, blas_of_one(), library)
    return bound(problem, made.workspace, partial(fft.stages, made), kept)


def staged(problem: Conv, device: Any, setting: Setting, *, library: fft.Library) -> Staged:
    """Of the row that transforms the filter in each call."""
    alone(setting)
    made = fft.plan(problem, device, blas_of_one(), library)
    parts = partial(fft.stages, made)
    return Staged(bound(problem, made.workspace, parts), apart(problem, parts, fft.by_stage(problem)))


def apart(problem: Conv, parts: Parts, names: Iterable[str]) -> dict[str, Bind]:
    """Each stage bound by itself."""
    return {name: bound(problem, 0, partial(_only, parts, name)) for name in names}


def _only(parts: Parts, name: str, named: dict[str, Array]) -> tuple[fft.Stage, ...]:
    return tuple(part for part in parts(named) if part.name == name)


def by_matrix(problem: Conv, device: Any, setting: Setting, *, library: fft.Library) -> Bind:
    """The filter's transform, or its gradient's, as a product."""
    alone(setting)
    made = fft.plan(problem, device, blas_of_one(), library, "xy")
    spare, waves = dft.room(problem, device), dft.matrix(problem)
    workspace = made.workspace + waves.nbytes + sum(x.nbytes for x in spare.values())
    return bound(problem, workspace, partial(dft.stages, made, spare=spare, waves=waves))


def keeping(
    row: Variant[Conv], prepare: Prepare, work: Callable[[Conv], Work], roles: tuple[str, ...]
) -> Variant[Conv]:
    """The row that keeps its filter's spectrum."""

    def accepts(problem: Conv) -> str | None:
        return kept_of.reads_filter(problem) or row.accepts(problem)

    return replace(
        row, name=f"{row.name}-kept", prepare=prepare, accepts=accepts, work=work, roles=roles, constant=("w",)
    )


def missing(library: Callable[[], str | None] = lambda: None) -> Callable[[], str | None]:
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
    kept = keeping(row, partial(prepare, library=library, kept=True), partial(fft.work, kept=True), roles[1])
    matrix = replace(
        row, roles=roles[2], name=f"{row.name}-dft", prepare=partial(by_matrix, library=library), work=dft.work
    )
    return row, kept, matrix


ALWAYS, ASKED = (DEFAULT, "fft"), ("fft",)
APART = ("stages",)  # the role of a row whose stages are timed apart by default
SCIPY: dict[str, Any] = {"missing": missing(), "kernel": pocketfft.scipy_kernel}
FFTW: dict[str, Any] = {"missing": missing(fftw.missing), "kernel": fftw.kernel}
TORCH: dict[str, Any] = {"missing": missing(torch_library.missing), "kernel": torch_library.kernel}
BY_FFTW: dict[str, fft.Library] = {rigor: partial(by_fftw, rigor=rigor) for rigor in fftw.RIGORS}
ROWS: tuple[Variant[Conv], ...] = (
    *_row("scipy", "scipy", by_scipy, ((*ALWAYS, *APART), ALWAYS, ASKED), **SCIPY),
    *_row("pyfftw", "pyfftw", BY_FFTW["measure"], ((*ASKED, *APART), ALWAYS, ASKED), **FFTW),
    *_row("pyfftw-estimate", "pyfftw", BY_FFTW["estimate"], **FFTW),
    *_row("pyfftw-patient", "pyfftw", BY_FFTW["patient"], **FFTW),
    # Planned for frames anywhere, as a caller's are: theirs are aligned all the same.
    *_row("pyfftw-unaligned", "pyfftw", partial(by_fftw, rigor="measure", aligned=False), **FFTW)[:1],
    *_row("torch", "torch", by_torch, ((), ASKED, ()), **TORCH),
)
STAGED: dict[str, Callable[[Conv, Any, Setting], Staged]] = {
    "fft-scipy": partial(staged, library=by_scipy),
    "fft-pyfftw": partial(staged, library=BY_FFTW["measure"]),
    "fft-torch": partial(staged, library=by_torch),
}
