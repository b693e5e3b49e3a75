"""Handles of CBLAS libraries, with the addresses that a compiled caller needs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from kernels.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Blas:
    """An opened CBLAS library, with the addresses of its functions."""

    name: str
    path: Path
    version: str
    kernels: str | None  # kernel family in use; None: not reported
    isa: str | None  # instruction set of the kernels; None: not reported
    wide: bool  # 64-bit integers
    sgemm: int  # address of cblas_sgemm
    omatcopy: int | None  # address of cblas_somatcopy; None: not usable
    set_threads: Callable[[int], object]
    get_threads: Callable[[], int]
    cgemm: int | None = None  # address of cblas_cgemm; None: not usable

    def use(self, threads: int) -> None:
        """Set the number of threads; raise Unavailable if the library, which may cap it, runs another."""
        self.set_threads(threads)
        if (there := self.get_threads()) != threads:
            raise Unavailable(f"{self.name} runs {there} threads instead of {threads}")


def describe(load: Callable[[], Blas]) -> Callable[[], tuple[str | None, str | None]]:
    """Return a variant's `kernel`, which loads a library and returns version, kernels, instruction set."""

    def kernel() -> tuple[str | None, str | None]:
        library = load()
        kernels = f" {library.kernels} kernels" if library.kernels else ""
        return f"{library.version}{kernels}", library.isa

    return kernel


def symbol(library: ctypes.CDLL, names: Iterable[str]) -> tuple[str, ctypes._NamedFuncPointer] | None:
    """Return the first of `names` that the library exports, and its function; None if it exports none."""
    for name in names:
        try:
            return name, library[name]
        except AttributeError:
            continue
    return None


def address(function: ctypes._NamedFuncPointer) -> int:
    place = ctypes.cast(function, ctypes.c_void_p).value
    assert place is not None
    return place
