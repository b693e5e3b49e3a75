"""Which processes a test has started, whoever their parent is by now."""

from __future__ import annotations

from pathlib import Path

import psutil

MARK = "KERNELGAP_TEST_MARK"  # in their environment, with the folder of the test


def marked(folder: Path) -> list[psutil.Process]:
    """Processes that a command of this test started: arms, workers of killed ones too."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found
