"""Processes of a probe: none outlives the one that started it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from kernels.errors import LaunchError

ROOT = Path(__file__).parents[2]
PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """End when `parent` does, however it ends. A parent that is gone already ends this one at once."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def path(more: dict[str, str] | None = None) -> dict[str, str]:
    """The environment in which a Python finds this checkout."""
    found = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": found, "PYTHONFAULTHANDLER": "1"} | (more or {})


def inside(program: str, *words: object, seconds: float, **settings: str) -> Any:
    """What a program of `_inside` answers in a process of its own, with `settings` in its environment."""
    command = [sys.executable, "-m", "micro.probes._inside", program, str(os.getpid()), *map(str, words)]
    try:
        ran = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=seconds, check=False, env=path(settings), cwd=ROOT,
        )  # fmt: skip
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
