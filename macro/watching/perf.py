"""Neutral samples of a process: perf on the software clock, switched on by the process itself around its steps."""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kernels.doctor.perf import rights
from kernels.errors import LaunchError

PERIOD = 1_000_000  # nanoseconds of processor time between two samples of a thread; a fourth of it cost a step 6 to 9 %
PATIENCE = 60.0  # seconds for perf to end a file and begin another
POLL = 0.002  # seconds between two looks whether it has
# oneDNN then writes the names of what it generates (the driver takes the file away with the process); 4 would write
# another format, which leaves them unnamed here.
NAMED = {"ONEDNN_JIT_PROFILE": "2"}
# Both may have blanks and parentheses: `f(int) (/usr/lib/a.so (deleted))`.
SEEN = re.compile(r"(.+?) \(([/\[].*|[^()]*)\)\s*")


class Sample(NamedTuple):
    """A thread was in this function at that time; PERIOD nanoseconds of processor time lie between two of them."""

    thread: int
    time: int  # monotonic nanoseconds
    symbol: str
    module: str  # path, or [kernel.kallsyms]


class Switch(NamedTuple):
    """A thread comes to run (`in`), waits of its own accord (`out`), or is pushed aside (`preempt`)."""

    thread: int
    time: int
    state: str


@functools.cache
def missing() -> str | None:
    """Why there are no samples here."""
    if shutil.which("perf") is None:
        return "perf is not here (Debian: apt-get install linux-perf)"
    ran = subprocess.run(
        ["perf", "record", "-q", "-B", "-e", f"cpu-clock{_rights()}", "-o", os.devnull, "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        return f"perf may not sample here: {(ran.stderr.strip().splitlines() or ['no reason given'])[0]}"
    return None


def sees_kernel() -> bool:
    """Whether the share of the operating system is in the samples."""
    return rights().kernel_samples is True


def _rights() -> str:
    return "" if sees_kernel() else ":u"


class Sampler:
    """perf attached to a process; it samples between `enable` and `disable` on `fifos`. Raises OSError.

    On a signal perf ends its file and begins another one (--switch-output), which has the maps of the process too: each
    is whole by itself. The file that is being written is not: its header comes last.
    """

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid, self.fifos = pid, [str(folder / f"{pid}.{name}") for name in ("control", "answer")]
        self._data, self._log = folder / f"{pid}.perf", folder / f"{pid}.perf.log"
        for fifo in self.fifos:
            os.mkfifo(fifo)
        with self._log.open("wb") as log:  # -B: no copy of every library into the home of the user
            self._process = subprocess.Popen(
                [
                    "perf",
                    "record",
                    "-q",
                    "-B",
                    "-k",
                    "CLOCK_MONOTONIC",
                    "-D",
                    "-1",
                    "--control",
                    f"fifo:{','.join(self.fifos)}",
                    "-p",
                    str(pid),
                    "-e",
                    f"cpu-clock{_rights()}",
                    "-c",
                    str(PERIOD),
                    "--switch-events",
                    "--switch-output=signal",
                    "-o",
                    str(self._data),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def read(self) -> tuple[list[Sample], list[Switch]]:
        """Samples and switches since the last time, while the process is alive. Raises LaunchError."""
        self._process.send_signal(signal.SIGUSR2)
        end = time.monotonic() + PATIENCE
        while not (ended := self._ended()):
            if self._process.poll() is not None or time.monotonic() > end:
                raise LaunchError(f"perf took no samples: {self.said()}")
            time.sleep(POLL)
        command = ["perf", "script", "-i", str(ended[0]), "--ns", "--show-switch-events"]
        command += ["-F", "tid,time,ip,sym,dso"]
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        ended[0].unlink()
        return parsed(ran.stdout)

    def said(self) -> str:
        """The last line of perf's log."""
        lines = self._log.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it says nothing"

    def _ended(self) -> list[Path]:
        """Files that perf writes no more; each has the time in its name."""
        return sorted(self._data.parent.glob(f"{self._data.name}.[0-9]*"))

    def close(self) -> None:
        """End perf, and delete its files."""
        self._process.kill()
        self._process.wait()
        for path in (self._data, *self._ended(), *map(Path, self.fifos)):
            with suppress(OSError):
                path.unlink()


def parsed(text: str) -> tuple[list[Sample], list[Switch]]:
    """Of `perf script`: `tid seconds: address symbol (module)`, `tid seconds: PERF_RECORD_SWITCH OUT preempt`."""
    samples, switches = [], []
    for line in text.splitlines():
        words = line.split(None, 3)
        if len(words) < 4 or not words[1].endswith(":"):
            continue
        seconds, _, nanoseconds = words[1][:-1].partition(".")
        thread, time = int(words[0]), int(seconds) * 10**9 + int(nanoseconds.ljust(9, "0"))
        if words[2].startswith("PERF_RECORD_SWITCH"):
            switches.append(Switch(thread, time, words[3].split()[-1].lower()))
            continue
        named = SEEN.fullmatch(words[3])
        symbol, module = named.groups() if named else (words[3], "[unknown]")
        samples.append(Sample(thread, time, symbol, module))
    return samples, switches
