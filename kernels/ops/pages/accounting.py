"""Page-fault costs by the system's accounting: system time over faults, and a profiler's samples.

Run as a program, it makes first touches under a profiler and prints the number of faults and the system time of one.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

from kernels import build, suite
from kernels.errors import SuiteError
from kernels.ops.pages.problem import Pages
from kernels.ops.pages.variants import SOURCE, held

PERIOD = 250_000  # nanoseconds between two samples
ROUNDS = 160  # first touches: about a second, measured within 6 % by a clock of 250 ticks a second
PATIENCE = 60.0  # seconds for the profiler


@dataclass(frozen=True)
class Account:
    """System time, user time and page faults of first touches of a mapping of 4 KiB pages."""

    system: tuple[float, ...]  # seconds of each first touch
    user: tuple[float, ...]  # seconds of each first touch
    faults: tuple[float, ...]  # of each first touch

    @property
    def each(self) -> float:
        """System time per page fault, in seconds."""
        return sum(self.system) / sum(self.faults)


def account(size: int, rounds: int = ROUNDS) -> Account:
    """Measure first touches of `size` bytes by getrusage of this thread. Raises Unavailable, BuildError."""
    region = held(Pages("clear", "fresh", size))
    columns = [(ctypes.c_double * rounds)() for _ in range(3)]
    call: Any = build.load(SOURCE).account
    call(ctypes.c_void_p(region.address), ctypes.c_int64(rounds), *columns)
    system, user, faults = (tuple(column) for column in columns)
    return Account(system, user, faults)


@dataclass(frozen=True)
class Profile:
    """Seconds per page fault, by a profiler's samples and by the profiled process's system time."""

    each: float  # by samples taken within a fault
    system: float  # by system time


def profiled(size: int, rounds: int = ROUNDS) -> Profile | str:
    """Profile first touches in another process under perf; return the reason if perf fails."""
    perf = shutil.which("perf")
    if perf is None:
        return "perf is not installed"
    with tempfile.TemporaryDirectory() as folder:
        record = [perf, "record", "-q", "-g", "-e", "cpu-clock", "-c", str(PERIOD), "-o", f"{folder}/samples"]
        child = suite.child("kernels.ops.pages.accounting", size, rounds)
        try:
            ran = _ran([*record, "--", *child], suite.environment())
            samples = _ran([perf, "script", "-i", f"{folder}/samples", "-F", "ip,sym"], dict(os.environ))
        except (OSError, subprocess.SubprocessError) as error:
            return f"perf failed: {str(error).splitlines()[0]}"
    faults, system = map(float, ran.split()[-2:])
    return counted(samples, faults, system)


def _ran(words: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


def counted(samples: str, faults: float, system: float) -> Profile | str:
    """Return the profile from `perf script`'s stacks (paragraphs), or the reason if none is in a fault."""
    stacks = [stack for stack in samples.split("\n\n") if stack.strip()]
    within = sum("page_fault" in stack for stack in stacks)
    if not within:
        return f"perf shows this user no kernel stacks ({len(stacks)} samples)"
    return Profile(within * PERIOD * 1e-9 / faults, system)


def main(size: str, rounds: str) -> int:
    """Print the number of faults and the system time per fault; return the exit code."""
    try:
        costs = account(int(size), int(rounds))
    except SuiteError as error:
        print(error, file=sys.stderr)
        return 1
    print(sum(costs.faults), costs.each)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
