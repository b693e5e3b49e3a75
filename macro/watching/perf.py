"""Samples by perf, the same for every framework; a process switches them on only around its steps."""

from __future__ import annotations

import functools
import os
import re
import select
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kernels.doctor.perf import rights
from kernels.errors import LaunchError
from macro.watching.load import processor_time

# Nanoseconds of CPU time between two samples of a thread: a prime, so that steps of whole milliseconds are not sampled
# at the same places again and again. A quarter of this period slowed a step by 6 to 9 %.
PERIOD = 997_123
FAULTS = 11  # page faults per recorded page fault
PATIENCE = 60.0  # seconds for perf to end a file and begin another
POLL = 0.002  # seconds between two checks for the new file
# oneDNN then writes a perf map with the names of generated kernels (deleted when the process is closed); 4 would write
# a jitdump, which leaves the kernels unnamed here.
NAMED = {"ONEDNN_JIT_PROFILE": "2"}
# Symbol and module may both contain blanks and parentheses: `f(int) (/usr/lib/a.so (deleted))`.
SEEN = re.compile(r"(.+?) \(([/\[].*|[^()]*)\)\s*")
# `process/thread seconds.nanoseconds: event: rest`; without process, and without event if perf records a single event.
LINE = re.compile(r"\s*(?:(\d+)/)?(\d+)\s+(\d+)\.(\d+):\s+(?:(\S+):\s+)?(\S+)\s+(.*)")


class Sample(NamedTuple):
    """Function that a thread ran at a sampled time; stands for PERIOD nanoseconds of CPU time."""

    thread: int
    time: int  # monotonic nanoseconds
    symbol: str
    module: str  # path, or [kernel.kallsyms]


class Switch(NamedTuple):
    """Context switch of a thread: it starts to run (`in`), blocks (`out`) or is preempted (`preempt`)."""

    thread: int
    time: int
    state: str


class Seen(NamedTuple):
    """Samples, context switches and page faults by perf; each of `faults` stands for FAULTS page faults."""

    samples: list[Sample]
    switches: list[Switch]
    faults: list[Sample]


@functools.cache
def missing() -> str | None:
    """Return the reason why perf cannot sample here, or None if it can."""
    if shutil.which("perf") is None:
        return "perf is not installed (Debian: apt-get install linux-perf)"
    ran = subprocess.run(
        ["perf", "record", "-q", "-B", "-e", f"cpu-clock{_rights()}", "-o", os.devnull, "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        return f"perf is not permitted to sample: {(ran.stderr.strip().splitlines() or ['no reason given'])[0]}"
    return None


def sees_kernel() -> bool:
    """Return whether perf may sample kernel code."""
    return rights().kernel_samples is True


def limits() -> list[str]:
    """Return the limits of sampling here, listed among an explanation's conditions; empty without limits."""
    if reason := missing():
        return [f"no samples: {reason}; the operating system's time is included in the rows"]
    return [] if sees_kernel() else ["perf may not sample the kernel: the operating system's time is in the residual"]


def _rights() -> str:
    return "" if sees_kernel() else ":u"


def _events() -> list[str]:
    """Return perf's options for CPU-clock and page-fault events, including the kernel where permitted."""
    rights = "" if sees_kernel() else "u"
    return ["-e", f"cpu-clock/period={PERIOD}/{rights}", "-e", f"page-faults/period={FAULTS}/{rights}"]


class Sampler:
    """perf attached to a process; it samples between `enable` and `disable` on `fifos`. Raises OSError.

    Attach perf before the process starts threads: new threads inherit the main thread's events. For a thread that runs
    already, perf opens descriptors, and busy-polls them once the thread ends (a data loader's at each epoch's end).

    On a signal, perf closes its file and begins another (--switch-output), with the process's memory maps again: each
    closed file can be read alone. The file being written cannot: its header is written last.
    """

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid, self.fifos = pid, [str(folder / f"{pid}.{name}") for name in ("control", "answer")]
        self._data, self._log = folder / f"{pid}.perf", folder / f"{pid}.perf.log"
        for fifo in self.fifos:
            os.mkfifo(fifo)
        record = "perf record -q -B -k CLOCK_MONOTONIC -D -1 --switch-events --switch-output=signal"
        attached = ["--control", f"fifo:{','.join(self.fifos)}", "-p", str(pid), "-o", str(self._data)]
        with self._log.open("wb") as log:  # -B: no copy of every library into the home of the user
            self._process = subprocess.Popen(
                [*record.split(), *attached, *_events()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # an interrupt typed at the terminal is the parent's alone
            )

    def attached(self) -> None:
        """Wait until perf is attached. Raises LaunchError if perf ends or does not answer."""
        control, answer = handles = [os.open(fifo, os.O_RDWR) for fifo in self.fifos]
        end = time.monotonic() + PATIENCE
        try:
            os.write(control, b"disable\n")
            while not select.select([answer], [], [], POLL)[0]:
                self._check(end)
            os.read(answer, 64)
        finally:
            for handle in handles:
                os.close(handle)

    def renew(self) -> None:
        """Drop all samples so far; the next file maps libraries loaded since the last. Raises LaunchError."""
        for path in self._switched():
            path.unlink()

    def read(self) -> Seen:
        """Return the data recorded since the last read; the process must be alive. Raises LaunchError."""
        seen = Seen([], [], [])
        for path in self._switched():
            command = ["perf", "script", "-i", str(path), "--ns", "--show-switch-events"]
            command += ["-F", "pid,tid,time,event,ip,sym,dso"]
            ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            more = parsed(ran.stdout, self.pid)
            path.unlink()
            seen = Seen(seen.samples + more.samples, seen.switches + more.switches, seen.faults + more.faults)
        return seen

    def _switched(self) -> list[Path]:
        """End perf's file; return all unread files, several after an interrupt. Raises LaunchError."""
        before, end = len(self._ended()), time.monotonic() + PATIENCE
        self._process.send_signal(signal.SIGUSR2)
        while len(ended := self._ended()) <= before:
            self._check(end)
            time.sleep(POLL)
        return ended

    def _check(self, end: float) -> None:
        """Raise LaunchError if perf has ended or the time is past `end`."""
        if self._process.poll() is not None or time.monotonic() > end:
            raise LaunchError(f"perf recorded no samples: {self.last_message()}")

    def seconds(self) -> float:
        """Return the CPU seconds that perf has used so far."""
        return processor_time(self._process.pid)

    def last_message(self) -> str:
        """Return the last line of perf's log."""
        lines = self._log.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "no message"

    def _ended(self) -> list[Path]:
        """Return the files that perf has finished, oldest first (their names end with a time)."""
        return sorted(self._data.parent.glob(f"{self._data.name}.[0-9]*"))

    def close(self) -> None:
        """End perf, and delete its files."""
        self._process.kill()
        self._process.wait()
        for path in (self._data, *self._ended(), *map(Path, self.fifos)):
            with suppress(OSError):
                path.unlink()


def parsed(text: str, process: int | None = None) -> Seen:
    """Parse the output of `perf script`; with `process`, drop other processes, such as its children."""
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
