"""Numba: Python functions compiled for their argument types, by LLVM or, for a GPU, by NVIDIA's NVVM."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernels.errors import Unavailable, summary
from kernels.libs import _optional
from kernels.libs import cuda as nvidia
from kernels.provider import Provider

QUIET = "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"
REMEDY = "set CUDA_HOME to a CUDA toolkit whose nvvm folder has libnvvm and libdevice"
NEWER = "pip install --upgrade numba-cuda, or an older NumPy"

missing = partial(_optional.missing, "numba")


def cuda_missing() -> str | None:
    """Return why Numba cannot compile for a GPU here, or None if it can."""
    return nvidia.missing() or missing()


def load() -> Any:
    """Import Numba. Raises Unavailable, also if it refuses the installed NumPy."""
    os.environ.setdefault(QUIET, "0")  # read when it is imported: many a grid of ours is below 128 blocks
    return _optional.load("numba", lambda numba: numba.njit)


def cuda() -> Any:
    """Import `numba.cuda`, with CUDA_HOME set to nvcc's toolkit if unset. Raises Unavailable."""
    load()
    if not (os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")) and (home := _toolkit()):
        os.environ["CUDA_HOME"] = str(home)
    import numpy as np

    if not hasattr(np, "row_stack"):  # which NumPy 2.5 has no more, and numba-cuda 0.30.4 names where it compiles
        vars(np)["row_stack"] = np.vstack
    try:
        return importlib.import_module("numba.cuda")
    except Exception as error:  # whatever a broken installation raises
        raise Unavailable(f"numba.cuda cannot be imported ({summary(error)}): {REMEDY}") from None


def compiled(kernel: Callable[..., object], arguments: Sequence[object]) -> None:
    """Launch a configured kernel once, which compiles it. Raises Unavailable.

    Numba raises ImportError if NVVM is missing, OSError for libdevice, RuntimeError for other libraries that
    cuda.pathfinder misses and for an unknown GPU, AttributeError for a NumPy that is too new."""
    try:
        kernel(*arguments)
    except (AttributeError, ImportError, OSError, RuntimeError) as error:
        if isinstance(error, AttributeError) and "numpy" not in str(error):
            raise
        remedy = NEWER if isinstance(error, AttributeError) else REMEDY
        raise Unavailable(f"numba.cuda cannot compile ({summary(error)}): {remedy}") from None


def _toolkit() -> Path | None:
    """Return the toolkit with a folder nvvm: nvcc's, by its path or resolved path, or /usr/local/cuda."""
    from kernels import nvcc  # imported here because it brings half of a command's imports

    compiler = nvcc.find()
    programs = (compiler, compiler.resolve()) if compiler else ()
    homes = (program.parents[1] for program in (*programs, nvcc.TOOLKIT))
    return next((home for home in homes if (home / "nvvm").is_dir()), None)


def kernel() -> tuple[str | None, str | None]:
    """Return Numba's version, and no instruction set: LLVM uses all that the processor has."""
    return f"numba {load().__version__}", None


NUMBA = Provider("numba", missing=missing, kernel=kernel, python=True)
NUMBA_CUDA = Provider("numba", "cuda", cuda_missing, kernel, python=True)
