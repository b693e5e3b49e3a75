"""Numba: Python functions compiled by LLVM for the types they are called with, on a GPU by NVIDIA's NVVM."""

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
REMEDY = "set CUDA_HOME to a CUDA toolkit, in whose nvvm folder numba finds libnvvm and libdevice"
NEWER = "pip install --upgrade numba-cuda, or an older NumPy"

missing = partial(_optional.missing, "numba")


def cuda_missing() -> str | None:
    """Return why Numba compiles nothing for a GPU here."""
    return nvidia.missing() or missing()


def load() -> Any:
    """The module. Raises Unavailable, also where it refuses the NumPy beside it."""
    os.environ.setdefault(QUIET, "0")  # read when it is imported: many a grid of ours is below 128 blocks
    return _optional.load("numba", lambda numba: numba.njit)


def cuda() -> Any:
    """The module `numba.cuda`, told where the toolkit is: beside nvcc it does not look. Raises Unavailable."""
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
    """The first launch of a configured kernel, in which it is compiled. Raises Unavailable where a part of the
    toolkit is missing: numba tells of NVVM by an ImportError, of libdevice by an OSError, of what cuda.pathfinder
    does not find and of a GPU that it does not know by a RuntimeError, of a NumPy that is too new for it by an
    AttributeError."""
    try:
        kernel(*arguments)
    except (AttributeError, ImportError, OSError, RuntimeError) as error:
        if isinstance(error, AttributeError) and "numpy" not in str(error):
            raise
        remedy = NEWER if isinstance(error, AttributeError) else REMEDY
        raise Unavailable(f"numba.cuda cannot compile ({summary(error)}): {remedy}") from None


def _toolkit() -> Path | None:
    """The folder of nvcc's toolkit, by the name under which nvcc was found where that is one; or the one where NVIDIA
    installs it."""
    from kernels import nvcc  # here: with it come half of what a command imports to start

    compiler = nvcc.find()
    programs = (compiler, compiler.resolve()) if compiler else ()
    homes = (program.parents[1] for program in (*programs, nvcc.TOOLKIT))
    return next((home for home in homes if (home / "nvvm").is_dir()), None)


def kernel() -> tuple[str | None, str | None]:
    """Its version, and no instruction set: LLVM takes what this processor has."""
    return f"numba {load().__version__}", None


NUMBA = Provider("numba", missing=missing, kernel=kernel, python=True)
NUMBA_CUDA = Provider("numba", "cuda", cuda_missing, kernel, python=True)
