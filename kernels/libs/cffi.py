"""cffi: C functions called from Python through libffi, by their address."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from kernels.errors import Unavailable


def missing() -> str | None:
    """Why cffi is not here, told without importing it."""
    return None if importlib.util.find_spec("cffi") else "cffi is not installed: pip install cffi"


def load() -> Any:
    """The module. Raises Unavailable where it is there in part only."""
    try:
        cffi: Any = importlib.import_module("cffi")
        cffi.FFI().cast("void *", 0)  # its compiled half too
    except Exception as error:  # whatever a broken installation raises
        told = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise Unavailable(
            f"cffi is installed but cannot be used ({told}): pip install --force-reinstall cffi"
        ) from None
    return cffi


def kernel() -> tuple[str | None, str | None]:
    """Its version; of instructions it knows nothing."""
    return f"cffi {load().__version__}", None
