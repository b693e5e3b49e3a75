"""Sampling of a program's lines: how long the main thread's innermost line outside libraries has run.

A call that holds the interpreter's lock delays the sample to its end, where the line is still the call's; so a sample
stands for the time since the sample before. While a program is sampled, its threads hand over the lock sooner than
usual: else a line of Python keeps it until a later line gives it up, to which the sample would go. With `after`, only
steps that already take so long are sampled, from that moment on, and each is put down to its longest line.
"""

from __future__ import annotations

import linecache
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import names  # beside this file

PERIOD, COARSE = 0.002, 0.01  # seconds between two samples, and between two looks for a step
MOST = 12  # lines that are reported
SWITCH = 1e-4  # seconds until a thread has to hand over the lock


class Lines:
    """A sampler of the thread that makes it, from `start` to `stop`.

    `after`, `until`: seconds of a step from which on, and up to which, it is sampled; `began()`: the step's start on
    the monotonic clock in nanoseconds, None between steps."""

    def __init__(self, after: float, until: float, began: Callable[[], int | None]) -> None:
        self.after, self.until, self.began = after, until, began
        self.thread, self.library = threading.get_ident(), names.library_folders()
        self.seconds: dict[tuple[str, int, str], float] = {}
        self.steps: dict[tuple[str, int, str], int] = {}
        self.long: dict[int, tuple[float, dict[tuple[str, int, str], float]]] = {}  # by start: seconds, those of lines
        self.over = threading.Event()
        self.sampler = threading.Thread(target=self._sample, name="kernelgap lines", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self.usual = sys.getswitchinterval()
        sys.setswitchinterval(min(self.usual, SWITCH))
        self.sampler.start()

    def stop(self) -> list[list[Any]]:
        """Return [file, line, function, source text, seconds, long steps] of the longest lines, the longest first."""
        self.over.set()
        self.sampler.join()
        sys.setswitchinterval(self.usual)
        for seconds, lines in self.long.values():
            line = max(lines, key=lines.__getitem__)
            self.seconds[line] = self.seconds.get(line, 0.0) + seconds
            self.steps[line] = self.steps.get(line, 0) + 1
        longest = sorted(self.seconds, key=lambda line: -self.seconds[line])[:MOST]
        texts = [linecache.getline(*line[:2]).strip() for line in longest]
        return [[*line, text, self.seconds[line], self.steps.get(line, 0)] for line, text in zip(longest, texts)]

    def _pause(self) -> float:
        """Return the seconds to the next sample, or to the moment at which the step may be long."""
        began = self.began() if self.after else None
        if began is None:
            return COARSE if self.after else PERIOD
        return max(PERIOD, self.after - (time.monotonic() - began * 1e-9))

    def _sample(self) -> None:
        last = time.monotonic()
        while not self.over.wait(self._pause()):
            began = self.began()
            passed = time.monotonic() - (began or 0) * 1e-9
            if began is None or not self.after <= passed <= self.until:
                last = time.monotonic()
                continue
            frame = sys._current_frames().get(self.thread)
            while frame is not None and frame.f_code.co_filename.startswith(self.library):
                frame = frame.f_back
            now = time.monotonic()
            if frame is not None:
                line = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
                seconds = self.seconds
                if self.after:
                    seconds = self.long.get(began, (0.0, {}))[1]
                    self.long[began] = passed, seconds
                seconds[line] = seconds.get(line, 0.0) + now - last
            last = now
