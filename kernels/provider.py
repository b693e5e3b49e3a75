"""Providers of kernels: a library, a binding or this suite, with the common fields of its variants."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Provider:
    """A library, a binding or this suite, with the default fields of its variants."""

    name: str
    device: str = "cpu"  # kind of device that its kernels run on
    missing: Callable[[], str | None] = lambda: None  # why it is missing, or None; does not import it
    kernel: Callable[[], tuple[str | None, str | None]] = lambda: (None, None)  # version and family, instruction set
    python: bool = False  # each call passes through the interpreter


def pocketfft(package: str) -> tuple[str | None, str | None]:
    """Return a variant's `kernel` for a package that bundles pocketfft: its version, no instruction set."""
    return f"{package} {importlib.import_module(package).__version__}, pocketfft", None


SUITE = Provider("suite")
NUMPY = Provider("numpy", python=True)
SCIPY = Provider("scipy", python=True)
LIBC = Provider("libc")
