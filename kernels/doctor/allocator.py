"""The malloc that serves this process, and the variables that steer it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass

from kernels.steering import MALLOC, variables

KNOWN = ("jemalloc", "tcmalloc", "mimalloc", "hoard", "musl")


@dataclass(frozen=True, slots=True)
class Allocator:
    """The C library and its malloc; None: not known."""

    libc: str | None
    malloc: str | None  # name
    path: str | None  # of the file that exports malloc
    variables: dict[str, str]


class _Symbol(ctypes.Structure):
    """Dl_info, which dladdr fills."""

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
    """Return the C library's name and version, as "glibc 2.36"."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        return None


def _exporter() -> str | None:
    """Return the file that exports malloc to libraries: a preloaded one precedes the C library."""
    process = ctypes.CDLL(None)
    path = None
    for symbol in ("malloc", "posix_memalign"):
        info = _Symbol()
        if process.dladdr(ctypes.cast(process[symbol], ctypes.c_void_p), ctypes.byref(info)) and info.path:
            path = os.fsdecode(info.path)
            if ".so" in path:
                break
            # An executable that is not position-independent resolves to itself; try the next symbol.
    return path


def name(path: str) -> str:
    """Return the usual name of a file's malloc."""
    file = os.path.basename(path)
    malloc = next((malloc for malloc in KNOWN if malloc in file), None)
    return malloc or ("glibc" if file.startswith(("libc.so", "libc-2")) else file)
