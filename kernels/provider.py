"""Providers of kernels: a library, a binding or this suite, with what their variants have in common."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Provider:
    """The origin of a kernel."""

    name: str
    device: str = "cpu"  # kind of device of its kernels
    missing: Callable[[], str | None] = lambda: None  # why it is missing, without importing it
    kernel: Callable[[], tuple[str | None, str | None]] = lambda: (None, None)  # version and family, instruction set
    python: bool = False  # each call passes through the interpreter


def pocketfft(package: str) -> tuple[str | None, str | None]:
    """Return the version of a package with a copy of pocketfft, which reports no vector instructions."""
    return f"{package} {importlib.import_module(package).__version__}, pocketfft", None


SUITE = Provider("suite")
NUMPY = Provider("numpy", python=True)
SCIPY = Provider("scipy", python=True)
LIBC = Provider("libc")
