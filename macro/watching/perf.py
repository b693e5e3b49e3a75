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

# Nanoseconds of processor time between two samples of a thread, a prime, so that steps of whole milliseconds are not
# seen at the same places again and again; a fourth of it cost a step 6 to 9 %.
PERIOD = 997_123
FAULTS = 11  # page faults between two of which one is seen
PATIENCE = 60.0  # seconds for perf to end a file and begin another
POLL = 0.002  # seconds between two looks whether it has
# oneDNN then writes the names of what it generates (the driver takes the file away with the process); 4 would write
# another format, which leaves them unnamed here.
NAMED = {"ONEDNN_JIT_PROFILE": "2"}
# Both may have blanks and parentheses: `f(int) (/usr/lib/a.so (deleted))`.
SEEN = re.compile(r"(.+?) \(([/\[].*|[^()]*)\)\s*")
# `process/thread seconds.nanoseconds: event: rest`; without the process, and the event, as of a single one.
LINE = re.compile(r"\s*(?:(\d+)/)?(\d+)\s+(\d+)\.(\d+):\s+(?:(\S+):\s+)?(\S+)\s+(.*)")


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


class Seen(NamedTuple):
    """What perf saw. Of `faults`, page faults, each stands for FAULTS of them."""

    samples: list[Sample]
    switches: list[Switch]
    faults: list[Sample]


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


def _events() -> list[str]:
    """Both, each with a period of its own; those in the kernel where they may be seen."""
    rights = "" if sees_kernel() else "u"
    return ["-e", f"cpu-clock/period={PERIOD}/{rights}", "-e", f"page-faults/period={FAULTS}/{rights}"]


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
                    *_events(),
                    "--switch-events",
                    "--switch-output=signal",
                    "-o",
                    str(self._data),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def read(self) -> Seen:
        """What was seen since the last time, while the process is alive. Raises LaunchError."""
        self._process.send_signal(signal.SIGUSR2)
        end = time.monotonic() + PATIENCE
        while not (ended := self._ended()):
            if self._process.poll() is not None or time.monotonic() > end:
                raise LaunchError(f"perf took no samples: {self.said()}")
            time.sleep(POLL)
        command = ["perf", "script", "-i", str(ended[0]), "--ns", "--show-switch-events"]
        command += ["-F", "pid,tid,time,event,ip,sym,dso"]
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        ended[0].unlink()
        return parsed(ran.stdout, self.pid)

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


def parsed(text: str, process: int | None = None) -> Seen:
    """Of `perf script`: `process/thread seconds: event: address symbol (module)`, `… PERF_RECORD_SWITCH OUT preempt`.
    `process`: others, such as its children, are left out."""
    seen = Seen([], [], [])
    for line in text.splitlines():
        words = LINE.match(line)
        if words is None or (process and words[1] and int(words[1]) != process):
            continue
        thread, time = int(words[2]), int(words[3]) * 10**9 + int(words[4].ljust(9, "0"))
        if words[6].startswith("PERF_RECORD_SWITCH"):
            seen.switches.append(Switch(thread, time, words[7].split()[-1].lower()))
            continue
        named = SEEN.fullmatch(words[7])
        symbol, module = named.groups() if named else (words[7], "[unknown]")
        of = seen.faults if (words[5] or "").startswith("page-faults") else seen.samples
        of.append(Sample(thread, time, symbol, module))
    return seen
