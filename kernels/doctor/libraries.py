"""BLAS libraries, each opened in a separate process, because a damaged library may end its process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

from kernels import suite
from kernels.doctor.packages import Part
from kernels.errors import SuiteError, summary
from kernels.libs import mkl, openblas
from kernels.libs.cblas import Blas

LIBRARIES: dict[str, tuple[str, Callable[[], str | None], Callable[[], Blas]]] = {
    "OpenBLAS of numpy": ("numpy", lambda: openblas.missing("numpy"), lambda: openblas.load("numpy")),
    "OpenBLAS of scipy": ("scipy", lambda: openblas.missing("scipy"), lambda: openblas.load("scipy")),
    "MKL": ("mkl", mkl.missing, mkl.load),
}  # the package that brings it, why it is missing or None, how to open it
PATIENCE = 20.0  # seconds, from a cold disk


@dataclass(frozen=True, slots=True)
class Library(Part):
    """A BLAS library, as it reports itself once opened."""

    kernels: str | None = None  # family of kernels that the library chose
    isa: str | None = None
    asked: str | None = None  # family requested by OPENBLAS_CORETYPE
    threads: int | None = None
    path: str | None = None


def opened(name: str) -> Library:
    """Open a library in a child process and return its facts, or as reason how the process ended."""
    try:
        ran = subprocess.run(
            suite.child("kernels.doctor.libraries", name),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
            env=suite.environment(),
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return _damaged(name, f"cannot be loaded: {summary(error)}")
    # MKL_VERBOSE and others write to stdout too; a library that ends the process after the facts was opened.
    facts = next((line for line in ran.stdout.splitlines() if line.startswith('{"here"')), None)
    if facts is None:
        return _damaged(name, f"loading it ended the process: {_end(ran.returncode, ran.stderr)}")
    return Library(**json.loads(facts))


def _damaged(name: str, reason: str) -> Library:
    return Library(False, reason=reason, install=f"pip install --force-reinstall {LIBRARIES[name][0]}")


def _end(code: int, stderr: str) -> str:
    """Return the signal or the exit code that ended a process, with the last line of stderr."""
    try:
        end = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        end = f"signal {-code}"
    return ", ".join([end, *stderr.strip().splitlines()[-1:]])


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
    facts = (blas.kernels, blas.isa, asked, blas.get_threads(), path)
    return Library(True, blas.version, None, None, *facts)


if __name__ == "__main__":
    print("\n" + json.dumps(asdict(library(sys.argv[1]))), flush=True)
