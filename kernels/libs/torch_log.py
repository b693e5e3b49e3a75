"""What PyTorch's oneDNN logs of a call."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from kernels.libs import onednn

VARIABLES = ("ONEDNN_VERBOSE", "DNNL_VERBOSE")  # what a user turns the log on with


def executed(torch: Any, call: Callable[[], object]) -> list[tuple[str, str]]:
    """The primitives that `call` executes, in order, each with the name of its implementation."""
    fields = (line.split(",") for line in _logged(torch, call))
    return [(line[5], line[6]) for line in fields if line[2:4] == ["primitive", "exec"]]


def named(torch: Any, call: Callable[[], object], *kinds: str) -> tuple[str | None, str | None] | None:
    """Name oneDNN's implementation of the last primitive of these kinds, with the number of reorders around it, as a
    variant's `kernel`; None where other kernels ran, which leave no line."""
    primitives = executed(torch, call)
    names = [name or kind for kind, name in primitives if kind in kinds]
    reorders = sum(kind == "reorder" for kind, _ in primitives)
    return onednn.named(f"torch {torch.__version__}, oneDNN", names[-1], reorders) if names else None


def _logged(torch: Any, call: Callable[[], object]) -> list[str]:
    """The lines that C functions print in the meantime, all of this process, with the log on."""
    set_level = torch._C._verbose.mkldnn_set_verbose
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    with tempfile.TemporaryFile() as file:
        stdout = os.dup(1)
        try:
            os.dup2(file.fileno(), 1)
            set_level(1)
            call()
        finally:
            set_level(int(any(os.environ.get(name, "0") != "0" for name in VARIABLES)))
            flush(None)
            os.dup2(stdout, 1)
            os.close(stdout)
        file.seek(0)
        return file.read().decode(errors="replace").splitlines()
