"""Is the plain step that is watched the script's own? The example scripts by themselves, by the step times that they
print, and watched, in fresh processes in turns, on the same heap."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from statistics import fmean, median, stdev

from micro.command import examples
from micro.command.examples import EXAMPLES, MODELS
from micro.command.figure import Figure
from reports import stats, step
from reports.breakdown import Breakdown

FEWEST, MOST = 8, 24  # pairs of processes of a script
KNOWN = 0.02  # half of its interval: more pairs are no use
SECONDS = 12  # of a script by itself, and of watching it
WARM = 4.0  # seconds of its steps that are not counted: the watched ones come later too
NEAR = (0.97, 1.03)
PRINTED = re.compile(r"step (\d+\.\d+)$", re.MULTILINE)


def figures() -> Iterator[Figure]:
    """A ratio of each script, with its interval; of pairs until that is narrow, wherever it is."""
    for script in MODELS:
        logs, half = list[float](), math.inf
        while half > KNOWN and len(logs) < MOST:
            logs.append(math.log(_plain(script, len(logs) + 1) / _own(script, len(logs) + 1)))
            half = _half(logs)
        low, middle, high = (math.exp(fmean(logs) + x) for x in (-half, 0.0, half))
        promised = f"interval inside {NEAR[0]} to {NEAR[1]}"
        found = f"{middle:.3f} [{low:.3f}, {high:.3f}] of {len(logs)} pairs"
        yield Figure(f"{script}: plain steps over its own", found, promised, NEAR[0] <= low and high <= NEAR[1])


def _half(logs: Sequence[float]) -> float:
    """Of the interval of their mean."""
    if len(logs) < FEWEST:
        return math.inf
    return stats.Estimate(0.0, ((len(logs) - 1, stdev(logs) / math.sqrt(len(logs))),)).half(1 - stats.SHOWN)


def _plain(script: str, number: int) -> float:
    """Seconds of a plain step when it is watched: the median block."""
    _watched(script, number)
    recording = examples.folder() / f"plain-{script}-{number}.part.kg"
    lines = (json.loads(line) for line in recording.read_text("utf-8").splitlines())
    seconds: list[float] = next(x["watched"]["levels"]["P0"] for x in lines if x["kind"] == "process")
    return median(seconds)


def _watched(script: str, number: int) -> Breakdown:
    source = EXAMPLES / f"{script}.py"
    return step.of(examples.explained(f"plain-{script}-{number}", [source], "--budget", f"{SECONDS}s"))[0]


def _own(script: str, number: int) -> float:
    """Seconds of a step as the script prints them, by itself: the median of means over as long as a plain block."""
    path = examples.folder() / f"own-{script}-{number}.txt"
    if not path.exists():
        part = path.with_suffix(".part")
        _by_itself(EXAMPLES / f"{script}.py", _watched(script, number).program["variables"], part)
        part.replace(path)
    steps = [float(x) for x in PRINTED.findall(path.read_text("utf-8"))]
    return median(blocks(steps))


def _by_itself(script: Path, variables: Mapping[str, str], output: Path) -> None:
    """With the variables of a watched one, its heap's among them."""
    environment = {**os.environ, **variables}
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
