"""Whose malloc serves this process, and the variables that steer it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass

from kernels.steering import MALLOC, variables

KNOWN = ("jemalloc", "tcmalloc", "mimalloc", "hoard", "musl")


@dataclass(frozen=True, slots=True)
class Allocator:
    """`malloc` is a name, `path` the file that exports it. None: not known."""

    libc: str | None
    malloc: str | None
    path: str | None
    variables: dict[str, str]


class _Symbol(ctypes.Structure):
    """dladdr's answer, Dl_info."""

    _fields_ = (
        ("path", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def allocator(environment: Mapping[str, str] = os.environ) -> Allocator:
    libc = _libc()
    try:
        path = _exporter()
    except (OSError, AttributeError, TypeError):
        path = None
    return Allocator(libc, None if path is None else name(path), path, variables(MALLOC, environment))


def _libc() -> str | None:
    """ "glibc 2.36"."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        return None


def _exporter() -> str | None:
    """The file whose malloc a library gets that asks for one: a preloaded one comes before the C library's."""
    process = ctypes.CDLL(None)
    path = None
    for symbol in ("malloc", "posix_memalign"):
        info = _Symbol()
        if process.dladdr(ctypes.cast(process[symbol], ctypes.c_void_p), ctypes.byref(info)) and info.path:
            path = os.fsdecode(info.path)
            if ".so" in path:
                break
            # An executable that is not position-independent stands in for what it calls: ask for another.
    return path


def name(path: str) -> str:
    """What a person calls the malloc of this file."""
    file = os.path.basename(path)
    malloc = next((malloc for malloc in KNOWN if malloc in file), None)
    return malloc or ("glibc" if file.startswith(("libc.so", "libc-2")) else file)
