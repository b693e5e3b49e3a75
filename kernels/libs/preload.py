"""Libraries preloaded into a process by LD_PRELOAD: the suite's shims, BLIS, and other allocators."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kernels import build, heap
from kernels.errors import SuiteError, Unavailable, UsageError
from kernels.libs import openblas

NONE = "none"
HERE = Path(__file__).parent
FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")


def _mkl_intel() -> Path:
    return build.shared(HERE / "mkl_intel.c")


def _sgemm_openblas() -> Path:
    path = openblas.path("scipy")
    if path is None:
        raise Unavailable(openblas.missing("scipy") or "")
    return build.shared(HERE / "sgemm_openblas.c", (f'-DLIBRARY="{path}"',))


def _installed(stem: str, package: str) -> Path:
    for folder in (*filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)), *FOLDERS):
        if files := sorted(Path(folder).glob(f"lib{stem}.so*")):
            return files[0]
    raise Unavailable(f"lib{stem} not found: apt-get install {package} (Debian 12)")


# The function that builds or finds a library's file, by name.
WORDS: dict[str, Callable[[], Path]] = {
    "mkl-intel": _mkl_intel,
    "sgemm-openblas": _sgemm_openblas,
    "blis": partial(_installed, "blis", "libblis4-pthread"),
    "jemalloc": partial(_installed, "jemalloc", "libjemalloc2"),
    "tcmalloc": partial(_installed, "tcmalloc_minimal", "libtcmalloc-minimal4"),
    "mimalloc": partial(_installed, "mimalloc", "libmimalloc2.0"),
}
ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc")


def words(asked: str) -> tuple[str, ...]:
    """Parse `none` or names joined by +. Raises UsageError."""
    names = () if asked == NONE else tuple(asked.split("+"))
    for word in names:
        if word not in WORDS:
            raise UsageError(f"--preload {asked}: choose from {NONE}, {', '.join(WORDS)}; join several by +")
    if len(set(names)) < len(names) or len(set(names) & set(ALLOCATORS)) > 1:
        raise UsageError(f"--preload {asked}: name each library once, and at most one allocator")
    return names


def given() -> tuple[str, ...]:
    """Return the names in WORDS of libraries that this environment already preloads."""
    names = heap.preloaded()
    return tuple(word for word in WORDS if any(name.startswith(word.replace("-", "_")) for name in names))


def joined(asked: str, more: str) -> str:
    """Return the --preload value `asked` with the name `more` appended."""
    return more if asked == NONE else f"{asked}+{more}"


@functools.cache
def library(word: str) -> Path:
    """Return a library's file, built if it is a shim. Raises Unavailable."""
    try:
        return WORDS[word]()
    except Unavailable:
        raise
    except SuiteError as error:
        raise Unavailable(str(error)) from None


def variables(asked: str) -> dict[str, str]:
    """Return LD_PRELOAD with the libraries `asked`, before those that it already holds; empty for none.

    Raises UsageError, Unavailable."""
    names = words(asked)
    if not names:
        return {}
    if sys.platform != "linux":
        raise Unavailable(f"--preload {asked}: requires Linux's dynamic linker")
    files = [str(library(word)) for word in names]
    return {"LD_PRELOAD": " ".join([*files, *filter(None, [os.environ.get("LD_PRELOAD")])])}


def missing(asked: Sequence[str], maps: str) -> str | None:
    """Return the first library of `asked` that a process's /proc/PID/maps lacks, or None if it has all."""
    return next(
        (word for word in asked if str(library(word).resolve()) not in maps and str(library(word)) not in maps), None
    )
