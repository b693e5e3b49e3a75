"""Numba: Python functions compiled by LLVM for the types they are called with."""

from __future__ import annotations

from functools import partial
from typing import Any

from kernels.libs import _optional

missing = partial(_optional.missing, "numba")


def load() -> Any:
    """The module. Raises Unavailable, also where it refuses the NumPy beside it."""
    return _optional.load("numba", lambda numba: numba.njit)


def kernel() -> tuple[str | None, str | None]:
    """Its version, and no instruction set: LLVM takes what this processor has."""
    return f"numba {load().__version__}", None
