"""The true seconds of a script's step, and what its remedy saves: both run in turns, each in a process of its own."""

from __future__ import annotations

import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels.heap import POLICIES

TURNS = 2
SECONDS = 3.0  # of steps per turn and variant
CLOCKS = ("wall", "processor")  # the columns of a run's times
WARM = 3  # first steps, which are not counted
Ticks = list[tuple[float, float]]  # seconds by every clock at the ends of steps


def edited(text: str, edits: Sequence[Sequence[str]]) -> str:
    """Return a script with a remedy's replacements; raise ValueError if one does not apply."""
    for old, new in edits:
        if old not in text:
            raise ValueError(f"the remedy's {old!r} is not in the script")
        text = text.replace(old, new)
    return text


def measured(script: Path, edits: Sequence[Sequence[str]], clock: str) -> dict[str, float]:
    """Return a step's mean seconds by each clock, and the share that the remedy saves, both with freed memory kept."""
    text, at = script.read_text("utf-8"), CLOCKS.index(clock)
    variants = [text, edited(text, edits)] if edits else [text]
    runs = [[_run(variant, script.name) for variant in variants] for _ in range(TURNS)]
    times = [statistics.median(x[at] for x in column) for column in zip(*runs, strict=True)]
    step = [statistics.median(x) for x in zip(*(turn[0] for turn in runs), strict=True)]
    return {**dict(zip(CLOCKS, step, strict=True)), "saving": 1 - times[-1] / times[0]}


def _run(text: str, name: str) -> list[float]:
    """Return the mean step of one run by every clock."""
    with tempfile.TemporaryDirectory() as folder:
        script, result = Path(folder, name), Path(folder, "step.json")
        script.write_text(text, "utf-8")
        words = [sys.executable, "-m", "tests.cases.truth", str(script), str(result)]
        subprocess.run(words, env={**os.environ, **POLICIES["keep"]}, check=True, capture_output=True, timeout=120)
        return [float(x) for x in json.loads(result.read_text("utf-8"))]


def watch(ticks: Ticks, result: Path, by_optimizer: bool) -> None:
    """Add a tick at the end of each step: of the first optimizer's, or of the outermost module's call."""
    from torch.nn.modules import module
    from torch.optim import optimizer

    stepped: list[object] = []
    inside: list[object] = []

    def tick(owner: object, *_: Any) -> None:
        del inside[-1:]
        if inside or (stepped and owner is not stepped[0]):
            return
        stepped[:] = [owner]
        queued = int(Path("/proc/thread-self/schedstat").read_text().split()[1]) * 1e-9  # other programs had the core
        ticks.append((time.perf_counter() - queued, time.process_time()))
        if len(ticks) > 2 * WARM and ticks[-1][0] - ticks[WARM][0] > SECONDS:
            write(ticks, result)
            os._exit(0)

    if by_optimizer:
        optimizer.register_optimizer_step_post_hook(tick)
    else:
        module.register_module_forward_pre_hook(lambda owner, _: inside.append(owner))
        module.register_module_forward_hook(tick)


def write(ticks: Ticks, result: Path) -> None:
    """Write the mean step by each clock: a median would miss long steps, as of validations or garbage collections."""
    columns = zip(ticks[WARM], ticks[-1], strict=True)
    result.write_text(json.dumps([(last - first) / (len(ticks) - 1 - WARM) for first, last in columns]), "utf-8")


if __name__ == "__main__":
    source, destination = map(Path, sys.argv[1:])
    recorded: Ticks = []
    text = source.read_text("utf-8")
    hooked = text.replace(
        "import torch\n", "import torch\nwatch()\n", 1
    )  # after the variables that a script sets for it
    start = functools.partial(watch, recorded, destination, ".step(" in text)
    exec(compile(hooked, str(source), "exec"), {"__name__": "__main__", "watch": start})
    write(recorded, destination)
