"""cffi: a binding that calls C functions from Python through libffi, by their address."""

from __future__ import annotations

from functools import partial
from typing import Any

from kernels.libs import _optional
from kernels.provider import Provider

missing = partial(_optional.missing, "cffi")


def load() -> Any:
    """Import cffi, and check its compiled extension. Raises Unavailable."""
    return _optional.load("cffi", lambda cffi: cffi.FFI().cast("void *", 0))


def kernel() -> tuple[str | None, str | None]:
    """Return cffi's version, and no instruction set."""
    return f"cffi {load().__version__}", None


CFFI = Provider("cffi", missing=missing, kernel=kernel, python=True)
