"""Is the plain step that is watched the script's own? The example scripts by themselves, by the step times that they
print, and watched, in fresh processes in turns, on the same heap."""

from __future__ import annotations

import math
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from statistics import fmean, median

from kernels import heap
from macro.watching import kg, perf
from micro.command import examples
from micro.command.examples import EXAMPLES, MODELS
from micro.command.figure import Figure
from reports import stats

TIMES, SEED = 5, 20161124
SECONDS = 12  # of a script by itself, and of watching it
WARM = 4.0  # seconds of its steps that are not counted: the watched ones come later too
NEAR = (0.97, 1.03)
PRINTED = re.compile(r"step (\d+\.\d+)$", re.MULTILINE)


def figures() -> Iterator[Figure]:
    """A ratio of each script, with its interval."""
    for script in MODELS:
        order, logs = random.Random(SEED), list[float]()
        for number in range(1, TIMES + 1):
            took = {}
            for kind in order.sample(("plain", "own"), 2):
                took[kind] = _plain(script, number) if kind == "plain" else _own(script, number)
            logs.append(math.log(took["plain"] / took["own"]))
        center = fmean(logs)
        error = math.sqrt(sum((x - center) ** 2 for x in logs) / (TIMES - 1) / TIMES)
        half = stats.Estimate(center, ((TIMES - 1, error),)).half(1 - stats.SHOWN)
        low, middle, high = (math.exp(x) for x in (center - half, center, center + half))
        promised = f"interval inside {NEAR[0]} to {NEAR[1]}"
        found = f"{middle:.3f} [{low:.3f}, {high:.3f}]"
        yield Figure(f"{script}: plain steps over its own", found, promised, NEAR[0] <= low and high <= NEAR[1])


def _plain(script: str, number: int) -> float:
    """Seconds of a plain step when it is watched: the median block."""
    name = f"plain-{script}-{number}"
    examples.explained(name, [EXAMPLES / f"{script}.py"], "--budget", f"{SECONDS}s")
    recording = kg.read(examples.folder() / f"{name}.part.kg")
    return median(recording.processes[0].levels["P0"])


def _own(script: str, number: int) -> float:
    """Seconds of a step as the script prints them, by itself: the median of means over as long as a plain block."""
    path = examples.folder() / f"own-{script}-{number}.txt"
    if not path.exists():
        part = path.with_suffix(".part")
        _by_itself(EXAMPLES / f"{script}.py", part)
        part.replace(path)
    steps = [float(x) for x in PRINTED.findall(path.read_text("utf-8"))]
    return median(blocks(steps))


def _by_itself(script: Path, output: Path) -> None:
    """With what a watched one has in its environment."""
    environment = os.environ | perf.NAMED | heap.variables(examples.HEAP)
    with output.open("wb") as stream:
        ran = subprocess.Popen([sys.executable, "-u", str(script)], stdout=stream, env=environment)
        try:
            with suppress(subprocess.TimeoutExpired):
                ran.wait(SECONDS + WARM)
        finally:
            ran.kill()
            ran.wait()


def blocks(steps: Sequence[float], least: float = 0.1) -> list[float]:
    """Means of consecutive steps that take `least` seconds together, without those of the first seconds."""
    found, part = list[float](), list[float]()
    for took in steps[sum(spent <= WARM for spent in accumulate(steps)) :]:
        part.append(took)
        if sum(part) >= least:
            found.append(fmean(part))
            part = []
    return found
