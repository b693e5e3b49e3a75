"""Which processes a test has started, whoever their parent is by now, and whether they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.builds import share

ROOT = Path(__file__).parents[1]
MARK = "KERNELGAP_TEST_MARK"  # in their environment, with the folder of the test
PATIENCE = 20.0  # seconds: longer than any end takes on a busy machine


def marked(folder: Path) -> list[psutil.Process]:
    """Processes that a command of this test started: arms, workers of killed ones too."""
    alive = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
        except psutil.Error:
            continue
    return alive


def becomes(true: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Whether it becomes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.01)
    return true()


def runs(pid: int) -> bool:
    """One that has ended and that its parent has not waited for does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def gone(pid: int) -> bool:
    """Whether a process ends in time."""
    return becomes(lambda: not runs(pid))


def left(folder: Path) -> list[psutil.Process]:
    """Processes of a test, but for this one, that do not end in time."""
    others = [x for x in marked(folder) if x.pid != os.getpid()]
    return psutil.wait_procs(others, PATIENCE)[1] if others else []


def interruptible() -> None:
    """In a child before it starts: an interrupt reaches it, also where it is ignored here, as under `make test &`."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def python(
    *words: str, cwd: Path = ROOT, state: Path | None = None, timeout: float = 300, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run this Python with the suite on its path, and with a state folder if one is given."""
    kept = {"KERNELGAP_STATE": str(share(state))} if state else {}
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | kept | variables
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
