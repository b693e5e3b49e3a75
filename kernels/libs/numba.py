"""Numba: Python functions compiled by LLVM for the types they are called with."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from kernels.errors import Unavailable


def missing() -> str | None:
    """Why Numba is not here, told without importing it."""
    return None if importlib.util.find_spec("numba") else "numba is not installed: pip install numba"


def load() -> Any:
    """The module. Raises Unavailable where it is there in part only, or refuses the NumPy beside it."""
    try:
        numba: Any = importlib.import_module("numba")
        numba.njit  # noqa: B018  (a folder left behind by pip is a module without it)
    except Exception as error:  # whatever a broken installation raises
        told = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise Unavailable(
            f"numba is installed but cannot be used ({told}): pip install --force-reinstall numba"
        ) from None
    return numba


def kernel() -> tuple[str | None, str | None]:
    """Its version, and no instruction set: LLVM takes what this processor has."""
    return f"numba {load().__version__}", None
