"""Intel's MKL from the `mkl` wheel, through its single dynamic library."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path

from kernels.errors import Unavailable
from kernels.libs.cblas import Blas, address, describe
from kernels.provider import Provider


def missing() -> str | None:
    """Return why MKL is missing, or None if it is installed; does not load it."""
    return None if _path() else "mkl is not installed: pip install mkl"


@functools.cache
def _path() -> Path | None:
    # The file's version is part of its name and moves between releases (.so.2, .so.3).
    files = sorted((Path(sys.prefix) / "lib").glob("libmkl_rt.so*"))
    return files[-1] if files else None


class _Version(ctypes.Structure):
    """Structure MKLVersion of mkl_types.h."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("major", "minor", "update")),
        *((name, ctypes.c_char_p) for name in ("status", "build", "processor", "platform")),
    )


def _isa(processor: str) -> str | None:
    """Return the instruction set of MKL's kernels, read from MKL's name for the processor, or None.

    On AMD, MKL names no instruction set and ignores requests."""
    names = {"AVX-512": "avx512", "AVX2": "avx2", "SSE4.2": "sse4.2"}
    return next((isa for name, isa in names.items() if name in processor), None)


@functools.cache
def load() -> Blas:
    """Load MKL with LP64 integers: sequential if MKL_NUM_THREADS is 1, else on GNU's OpenMP.

    MKL_NUM_THREADS is set in a worker's environment. Raises Unavailable."""
    path = _path()
    if path is None:
        raise Unavailable(missing() or "")
    os.environ.setdefault("MKL_INTERFACE_LAYER", "LP64")
    os.environ.setdefault(
        "MKL_THREADING_LAYER", "SEQUENTIAL" if os.environ.get("MKL_NUM_THREADS", "1") == "1" else "GNU"
    )
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise Unavailable(
            f"mkl is installed but cannot be loaded ({error}): pip install --force-reinstall mkl"
        ) from None
    about = _Version()
    library.MKL_Get_Version(ctypes.byref(about))
    text = ctypes.create_string_buffer(198)
    library.MKL_Get_Version_String(text, len(text))
    words = text.value.decode().split()
    version = next((word.removesuffix("-Product") for word in words if word[:4].isdigit()), "unknown")
    return Blas(
        name="MKL",
        path=path,
        version=f"MKL {version}",
        kernels=None,  # it names none
        isa=_isa(about.processor.decode()),
        wide=False,
        sgemm=address(library["cblas_sgemm"]),
        omatcopy=None,  # MKL_Somatcopy takes characters, not CBLAS enumerations
        set_threads=library["MKL_Set_Num_Threads"],
        get_threads=library["MKL_Get_Max_Threads"],
    )


MKL = Provider("mkl", missing=missing, kernel=describe(load))
