"""Which processes a test has started, whoever their parent is by now, and whether they end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil

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
