"""Processes that do not outlive the process that started them.

    python -m tests.gpu.session.processes PARENT COMMAND …

runs a command that ends when its parent does.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from kernels import suite

ROOT = suite.ROOT
PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """End this process when `parent` ends, or at once where it has ended already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def follow(other: int) -> None:
    """End this process soon after another one that need not be its parent."""

    def watch() -> None:
        while Path(f"/proc/{other}").exists():
            time.sleep(0.1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def leashed(command: Sequence[str]) -> list[str]:
    """Return the command as one that ends when this process does."""
    return suite.child("tests.gpu.session.processes", os.getpid(), *command)


def start(command: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a leashed command in a group of its own. Its output goes to a file, which no amount of it fills."""
    return subprocess.Popen(
        leashed(command),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        process_group=0,
        env=environment(),
        cwd=ROOT,
    )


def outlast(process: subprocess.Popen[Any], seconds: float) -> int | None:
    """Wait for a process, kill what is left of its group; return its exit code, None where its time was over."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def lines(file: Path) -> list[dict[str, Any]]:
    """Return the JSON objects of a file, a line each, without one that was cut short."""
    records = []
    for line in file.read_text("utf-8", "replace").splitlines():
        with contextlib.suppress(ValueError):
            records.append(json.loads(line))
    return [record for record in records if isinstance(record, dict)]


def environment(more: dict[str, str] | None = None) -> dict[str, str]:
    """Return the environment in which a Python finds this checkout."""
    return suite.environment() | {"PYTHONFAULTHANDLER": "1"} | (more or {})


def end(code: int) -> str:
    """Return in words how a process ended."""
    try:
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    except ValueError:
        return f"killed by signal {-code}"


def last(text: str) -> str:
    """Return the last line that is not blank."""
    some = [line.strip() for line in text.splitlines() if line.strip()]
    return some[-1][:300] if some else "without a word"


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # by which it may be asked to end, whatever our own parent ignores
    os.execvp(sys.argv[2], sys.argv[2:])
