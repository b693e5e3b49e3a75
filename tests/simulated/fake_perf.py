"""perf's end of the two FIFOs by which it is switched on and off."""

from __future__ import annotations

import os
import threading
from pathlib import Path


class Perf(threading.Thread):
    """Writes down each word and answers it."""

    def __init__(self, folder: Path, journal: list[str]) -> None:
        super().__init__(daemon=True)
        self.fifos = folder / "control", folder / "answer"
        for path in self.fifos:
            os.mkfifo(path)
        self._journal = journal

    def run(self) -> None:
        with self.fifos[0].open() as control, self.fifos[1].open("w") as answer:
            for word in control:
                self._journal.append(word.strip())
                answer.write("ack\n")
                answer.flush()
