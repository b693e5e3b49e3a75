"""FFTW through pyFFTW: plans of a requested rigor, whose wisdom is kept in the state folder."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from kernels import build, state
from kernels.libs import _optional
from kernels.problem import Array
from kernels.provider import Provider

RIGORS = ("estimate", "measure", "patient")
SETS = ("avx512", "avx2", "avx", "sse2", "neon")  # as codelets are named, the widest first

missing = partial(_optional.missing, "pyfftw")


def load() -> Any:
    """Import pyFFTW, bound to its own FFTW. Raises Unavailable if it is half-installed.

    MKL exports FFTW's functions, too, and to all libraries that are loaded after it."""
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | getattr(os, "RTLD_DEEPBIND", 0))
    try:
        return _optional.load("pyfftw", lambda pyfftw: (pyfftw.FFTW, pyfftw.import_wisdom))
    finally:
        sys.setdlopenflags(flags)


def kernel() -> tuple[str | None, str | None]:
    """Return the versions of pyFFTW and FFTW, and no instruction set, which depends on the plan."""
    pyfftw = load()
    return f"pyfftw {pyfftw.__version__}, FFTW {pyfftw.fftw_version}", None


class Plan:
    """A planned FFTW transform; `execute` runs on the planned arrays, or those of the last call from `on`."""

    def __init__(self, planned: Any, wisdom: bytes) -> None:
        self.execute: Callable[[], object] = planned.execute
        self._wisdom = wisdom
        self._move: Callable[[Array, Array], None] = planned.update_arrays
        self._placed: Callable[[], None] | None = None

    @property
    def isa(self) -> str | None:
        """The widest instruction set of a codelet in the plan's wisdom, or None if all are scalar.

        The wisdom also covers earlier plans of the same rigor on this processor."""
        codelets = self._wisdom.decode()
        return next((isa for isa in SETS if re.search(rf"codelet_\w+_{isa}[_ ]", codelets)), None)

    def on(self, source: Array, target: Array) -> Callable[[], None]:
        """Return a call of the transform on other arrays of the same shapes and alignment."""

        def call() -> None:
            if self._placed is not call:  # other arrays were transformed since
                self._move(source, target)
                self._placed = call
            self.execute()

        return call


def plan(images: Array, spectra: Array, inverse: bool, rigor: str, threads: int = 1) -> Plan:
    """Plan a transform of the last two axes, real images to half spectra or inverse, unscaled.

    The plan runs on these arrays, which planning may overwrite; the inverse transform destroys the spectra.

    Wisdom is kept by rigor, because FFTW prefers the wisdom of a longer search, by which MEASURE would equal
    PATIENT."""
    pyfftw, known = load(), _wisdom(rigor)
    pyfftw.forget_wisdom()
    if known:
        pyfftw.import_wisdom((b"", known, b""))
    flags = [f"FFTW_{rigor.upper()}", *(["FFTW_DESTROY_INPUT"] if inverse else [])]
    direction = "FFTW_BACKWARD" if inverse else "FFTW_FORWARD"
    arrays = (spectra, images) if inverse else (images, spectra)
    planned = pyfftw.FFTW(*arrays, axes=(1, 2), direction=direction, flags=flags, threads=threads)
    single: bytes = pyfftw.export_wisdom()[1]
    pyfftw.forget_wisdom()
    if rigor != "estimate" and set(single.splitlines()) != set(known.splitlines()):  # their order changes
        state.write_bytes(_file(rigor), single)
    return Plan(planned, single)


def _file(rigor: str) -> str:
    """Return the name of a rigor's wisdom file for this version and this processor."""
    words = f"{load().fftw_version}\0{build.processor()}"
    return f"fftw/{rigor}-{hashlib.sha256(words.encode()).hexdigest()[:12]}"


def _wisdom(rigor: str) -> bytes:
    """Return the wisdom of earlier searches of this rigor; empty for "estimate" and on first use."""
    try:
        return b"" if rigor == "estimate" else (state.folder() / _file(rigor)).read_bytes()
    except OSError:
        return b""


FFTW = Provider("pyfftw", missing=missing, kernel=kernel, python=True)
