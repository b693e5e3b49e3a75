"""What the system itself says of page faults: its own time over their number, and a profiler's samples of it.

Run as a program it makes first touches for a profiler to look at, and prints how many faults
they were and system time a fault.
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
ROUNDS = 160  # first touches: a second or so, of which a clock of 250 ticks a second tells 6 %
PATIENCE = 60.0  # seconds for the profiler


@dataclass(frozen=True)
class Account:
    """Of each first touch of a mapping of 4 KiB pages: seconds of system and of user time, and faults."""

    system: tuple[float, ...]
    user: tuple[float, ...]
    faults: tuple[float, ...]

    @property
    def each(self) -> float:
        """Seconds of system time a fault."""
        return sum(self.system) / sum(self.faults)


def account(size: int, rounds: int = ROUNDS) -> Account:
    """First touches of `size` bytes by this thread, told by getrusage. Raises Unavailable, BuildError."""
    region = held(Pages("clear", "fresh", size))
    columns = [(ctypes.c_double * rounds)() for _ in range(3)]
    call: Any = build.load(SOURCE).account
    call(ctypes.c_void_p(region.address), ctypes.c_int64(rounds), *columns)
    system, user, faults = (tuple(column) for column in columns)
    return Account(system, user, faults)


@dataclass(frozen=True)
class Profile:
    """Seconds a fault: by a profiler's samples that were taken within one, and by system time in that process."""

    each: float
    system: float


def profiled(size: int, rounds: int = ROUNDS) -> Profile | str:
    """Another process under perf, or why there is none."""
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
            return f"perf may not be used: {str(error).splitlines()[0]}"
    faults, system = map(float, ran.split()[-2:])
    return counted(samples, faults, system)


def _ran(words: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


def counted(samples: str, faults: float, system: float) -> Profile | str:
    """From `perf script`'s stacks, one a paragraph."""
    stacks = [stack for stack in samples.split("\n\n") if stack.strip()]
    within = sum("page_fault" in stack for stack in stacks)
    if not within:
        return f"perf shows no stack of the kernel to this user ({len(stacks)} samples)"
    return Profile(within * PERIOD * 1e-9 / faults, system)


def main(size: str, rounds: str) -> int:
    """The exit code."""
    try:
        costs = account(int(size), int(rounds))
    except SuiteError as error:
        print(error, file=sys.stderr)
        return 1
    print(sum(costs.faults), costs.each)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
