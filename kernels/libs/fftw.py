"""FFTW through pyFFTW: plans made beforehand, by as much search as is asked for, and what a search found kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kernels import build, state
from kernels.libs import _optional

if TYPE_CHECKING:
    from kernels.problem import Array

RIGORS = ("estimate", "measure", "patient")
UNALIGNED = "FFTW_UNALIGNED"

missing = partial(_optional.missing, "pyfftw")


def load() -> Any:
    """The module. Raises Unavailable where it is there in part only."""
    return _optional.load("pyfftw", lambda pyfftw: (pyfftw.FFTW, pyfftw.import_wisdom))


def kernel() -> tuple[str | None, str | None]:
    """Both versions; which instructions a plan takes is in its wisdom alone."""
    pyfftw = load()
    return f"pyfftw {pyfftw.__version__}, FFTW {pyfftw.fftw_version}", None


def plan(images: Array, spectra: Array, inverse: bool, rigor: str, aligned: bool = True) -> Callable[[], object]:
    """A transform of the last two axes, real images to half spectra or back, not scaled; to be called again and again
    on these arrays, which planning may overwrite. The inverse destroys the spectra. Not `aligned`: by instructions that
    take arrays anywhere.

    Wisdom is kept by rigor: FFTW takes what a longer search found wherever there is some, and MEASURE would be
    PATIENT."""
    known = _wisdom(rigor)
    execute, single = _searched((images, spectra), inverse, rigor, aligned, known)
    if rigor != "estimate" and set(single.splitlines()) != set(known.splitlines()):  # their order changes
        state.write_bytes(_file(rigor), single)
    return execute


def search(images: Array, spectra: Array, inverse: bool, rigor: str) -> None:
    """Plan as without wisdom, and keep none."""
    _searched((images, spectra), inverse, rigor, True, b"")


def _searched(
    arrays: tuple[Array, Array], inverse: bool, rigor: str, aligned: bool, known: bytes
) -> tuple[Callable[[], object], bytes]:
    """A plan, and the wisdom with what was found for it."""
    pyfftw = load()
    pyfftw.forget_wisdom()
    if known:
        pyfftw.import_wisdom((b"", known, b""))
    flags = [f"FFTW_{rigor.upper()}", *(["FFTW_DESTROY_INPUT"] if inverse else []), *([] if aligned else [UNALIGNED])]
    direction = "FFTW_BACKWARD" if inverse else "FFTW_FORWARD"
    first, second = (arrays[1], arrays[0]) if inverse else arrays
    planned = pyfftw.FFTW(first, second, axes=(1, 2), direction=direction, flags=flags, threads=1)
    single: bytes = pyfftw.export_wisdom()[1]
    pyfftw.forget_wisdom()
    return planned.execute, single


def _file(rigor: str) -> str:
    """Its wisdom is of this version and this processor."""
    words = f"{load().fftw_version}\0{build.processor()}"
    return f"fftw/{rigor}-{hashlib.sha256(words.encode()).hexdigest()[:12]}"


def _wisdom(rigor: str) -> bytes:
    """What earlier searches found; nothing of a mere estimate."""
    try:
        return b"" if rigor == "estimate" else (state.folder() / _file(rigor)).read_bytes()
    except OSError:
        return b""
