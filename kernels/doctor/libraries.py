"""BLAS libraries, opened in a child process, which a damaged library may end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from kernels import suite
from kernels.errors import SuiteError, summary
from kernels.libs import mkl, openblas
from kernels.libs.cblas import Blas

LIBRARIES: dict[str, tuple[str, Callable[[], str | None], Callable[[], Blas]]] = {
    "OpenBLAS of numpy": ("numpy", lambda: openblas.missing("numpy"), lambda: openblas.load("numpy")),
    "OpenBLAS of scipy": ("scipy", lambda: openblas.missing("scipy"), lambda: openblas.load("scipy")),
    "MKL": ("mkl", mkl.missing, mkl.load),
}  # the package that brings it, why it is not here, how to open it
PATIENCE = 20.0  # seconds for all of them, from a cold disk


@dataclass(frozen=True, slots=True)
class Library:
    """A BLAS library, with the reason and the remedy if it is missing."""

    here: bool
    version: str | None = None
    kernels: str | None = None  # family of kernels that the library chose
    isa: str | None = None
    asked: str | None = None  # family in OPENBLAS_CORETYPE
    threads: int | None = None
    path: str | None = None
    reason: str | None = None
    install: str | None = None  # as in Part


def open_all() -> dict[str, Library]:
    """Open all libraries; report one that kills the process, and open the rest without it."""
    opened: dict[str, Library] = {}
    while True:
        lines, end = _child(list(opened))
        opened |= {line["name"]: Library(**line["library"]) for line in lines if "name" in line}
        begun = (line["open"] for line in lines if "open" in line)
        dead = next((name for name in begun if name not in opened), None)
        if dead is None:
            return {name: opened.get(name, Library(False, reason=f"not opened: {end}")) for name in LIBRARIES}
        opened[dead] = _damaged(dead, f"opening it ended the process: {end}")


def _damaged(name: str, reason: str) -> Library:
    return Library(False, reason=reason, install=f"pip install --force-reinstall {LIBRARIES[name][0]}")


def _child(skip: list[str]) -> tuple[list[dict[str, Any]], str]:
    """Return the lines of a process that opens all but `skip`, and how it ended."""
    try:
        ran = subprocess.run(
            suite.child("kernels.doctor.libraries", *skip),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            env=suite.environment(),
        )
    except subprocess.TimeoutExpired as error:
        return _lines(error.stdout or b""), f"no answer in {PATIENCE:g} s"
    except (OSError, ValueError) as error:
        return [], summary(error)
    return _lines(ran.stdout), _end(ran.returncode, ran.stderr)


def _end(code: int, stderr: bytes) -> str:
    """Return the signal or the exit code, with the last line of stderr."""
    try:
        end = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        end = f"signal {-code}"
    words = stderr.decode(errors="replace").split("\n")
    return ", ".join([end, *[line.strip() for line in words if line.strip()][-1:]])


def _lines(output: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects among the lines; MKL_VERBOSE and others write there too."""
    objects = []
    for line in output.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            objects.append(value)
    return objects


def library(name: str) -> Library:
    """Open a library in this process and return its facts."""
    _, missing, load = LIBRARIES[name]
    try:
        reason = missing()
        if reason:
            return Library(False, reason=reason)
        blas = load()
    except SuiteError as error:  # its text names the command
        return Library(False, reason=str(error))
    except Exception as error:  # a damaged library lacks symbols, is cut short …
        return _damaged(name, summary(error))
    asked = os.environ.get("OPENBLAS_CORETYPE") if blas.kernels else None
    path = os.path.realpath(blas.path)
    return Library(True, blas.version, blas.kernels, blas.isa, asked, blas.get_threads(), path)


def main(skip: list[str]) -> None:
    """Print a line before each library and one after it."""
    for name in LIBRARIES:
        if name not in skip:
            print(json.dumps({"open": name}), flush=True)
            print(json.dumps({"name": name, "library": asdict(library(name))}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
