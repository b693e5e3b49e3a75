"""Processes of a probe: none outlives the one that started it.

    python -m micro.probing.processes PARENT COMMAND …

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
from typing import Any

from kernels import suite
from kernels.errors import LaunchError

ROOT = suite.ROOT
PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """End when `parent` does, however it ends. A parent that is gone already ends this one at once."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def follow(other: int) -> None:
    """End soon after a process that is not the parent: between it and this one stands a tool."""

    def watch() -> None:
        while Path(f"/proc/{other}").exists():
            time.sleep(0.1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def leashed(command: Sequence[str]) -> list[str]:
    """The command as one that ends when this process does."""
    return suite.child("micro.probing.processes", os.getpid(), *command)


def outlast(process: subprocess.Popen[Any], seconds: float) -> int | None:
    """Its exit code; None where its time was over. Nothing of its group is left."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def lines(file: Path) -> list[dict[str, Any]]:
    """The JSON lines of a file, but for one cut short."""
    records = []
    for line in file.read_text("utf-8", "replace").splitlines():
        with contextlib.suppress(ValueError):
            records.append(json.loads(line))
    return records


def path(more: dict[str, str] | None = None) -> dict[str, str]:
    """The environment in which a Python finds this checkout."""
    return suite.environment() | {"PYTHONFAULTHANDLER": "1"} | (more or {})


def inside(program: str, *words: object, seconds: float, **settings: str) -> Any:
    """What a program of `programs.py` answers in a process of its own, with `settings` in its environment."""
    command = suite.child("micro.probing.programs", program, os.getpid(), *words)
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            env=path(settings),
            cwd=ROOT,
        )
    except subprocess.TimeoutExpired:
        raise LaunchError(f"{program}: no answer within {seconds:g} s") from None
    answers = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode or not answers:
        raise LaunchError(f"{program}: {end(ran.returncode)}, {last(ran.stdout + ran.stderr)}")
    return json.loads(answers[-1])


def end(code: int) -> str:
    """How a process ended."""
    try:
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    except ValueError:
        return f"killed by signal {-code}"


def last(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "without a word"


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # by which it may be told to end, whatever our own parent ignores
    os.execvp(sys.argv[2], sys.argv[2:])
