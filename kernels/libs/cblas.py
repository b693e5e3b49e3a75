"""Handles of CBLAS libraries, with the addresses that a compiled caller needs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from kernels.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Blas:
    """An opened CBLAS library."""

    name: str
    path: Path
    version: str
    kernels: str | None
    isa: str | None
    wide: bool  # 64-bit integers
    sgemm: int  # address of cblas_sgemm
    omatcopy: int | None  # address of cblas_somatcopy
    set_threads: Callable[[int], object]
    get_threads: Callable[[], int]
    cgemm: int | None = None  # address of cblas_cgemm

    def use(self, threads: int) -> None:
        """Set the number of threads and read it back, as libraries cap it silently. Raises Unavailable."""
        self.set_threads(threads)
        if (there := self.get_threads()) != threads:
            raise Unavailable(f"{self.name} runs {there} threads where {threads} were asked")


def describe(load: Callable[[], Blas]) -> Callable[[], tuple[str | None, str | None]]:
    """Return a function that loads a library and returns its version and kernels, and its instruction set."""

    def kernel() -> tuple[str | None, str | None]:
        library = load()
        kernels = f" {library.kernels} kernels" if library.kernels else ""
        return f"{library.version}{kernels}", library.isa

    return kernel


def symbol(library: ctypes.CDLL, names: Iterable[str]) -> tuple[str, ctypes._NamedFuncPointer] | None:
    """Return the first of `names` that the library exports, and its function."""
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
