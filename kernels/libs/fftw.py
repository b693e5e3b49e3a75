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

missing = partial(_optional.missing, "pyfftw")


def load() -> Any:
    """The module. Raises Unavailable where it is there in part only."""
    return _optional.load("pyfftw", lambda pyfftw: (pyfftw.FFTW, pyfftw.import_wisdom))


def kernel() -> tuple[str | None, str | None]:
    """Both versions; which instructions a plan takes is in its wisdom alone."""
    pyfftw = load()
    return f"pyfftw {pyfftw.__version__}, FFTW {pyfftw.fftw_version}", None


def plan(images: Array, spectra: Array, inverse: bool, rigor: str) -> Callable[[], object]:
    """A transform of the last two axes, real images to half spectra or back, not scaled; to be called again and again
    on these arrays, which planning may overwrite. The inverse destroys the spectra.

    Wisdom is kept by rigor: FFTW takes what a longer search found wherever there is some, and MEASURE would be
    PATIENT."""
    pyfftw = load()
    pyfftw.forget_wisdom()
    known = _wisdom(rigor)
    if known:
        pyfftw.import_wisdom((b"", known, b""))
    flags = (f"FFTW_{rigor.upper()}", *(("FFTW_DESTROY_INPUT",) if inverse else ()))
    arrays = (spectra, images) if inverse else (images, spectra)
    direction = "FFTW_BACKWARD" if inverse else "FFTW_FORWARD"
    planned = pyfftw.FFTW(*arrays, axes=(1, 2), direction=direction, flags=flags, threads=1)
    single = pyfftw.export_wisdom()[1]
    if rigor != "estimate" and set(single.splitlines()) != set(known.splitlines()):  # their order changes
        state.write_bytes(_file(rigor), single)
    pyfftw.forget_wisdom()
    execute: Callable[[], object] = planned.execute
    return execute


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
