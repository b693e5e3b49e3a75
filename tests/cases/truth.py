"""The true seconds of a script's step, and what its remedy saves: both run by themselves, in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernels.heap import POLICIES

TURNS = 2
SECONDS = 3.0  # of steps per turn and variant
WALL, PROCESSOR = 0, 1  # places in a row of times


@dataclass(frozen=True)
class Truth:
    """Seconds of a step as the script is, and with its remedy (0: without one)."""

    step: float  # by the clock
    saving: float  # share of a step that the remedy saves
    steps: int  # of the script as it is, in all turns


def edited(text: str, edits: Sequence[Sequence[str]]) -> str:
    """Return a script with a remedy's replacements; raise ValueError if one does not apply."""
    for old, new in edits:
        if text.count(old) < 1:
            raise ValueError(f"the remedy's {old!r} is not in the script")
        text = text.replace(old, new)
    return text


def measured(script: Path, edits: Sequence[Sequence[str]], clock: str = "processor", mean: bool = False) -> Truth:
    """Run a script with and without its remedy in turns, freed memory kept as in the report's steps."""
    texts = [script.read_text("utf-8")]
    texts += [edited(texts[0], edits)] if edits else []
    runs: list[list[tuple[int, list[float]]]] = [[] for _ in texts]
    for _ in range(TURNS):
        for variant, text in zip(runs, texts, strict=True):
            variant.append(_run(text, script.name, "fmean" if mean else "median"))
    at = WALL if clock == "wall" else PROCESSOR
    times = [statistics.median(row[at] for _, row in variant) for variant in runs]
    wall = statistics.median(row[WALL] for _, row in runs[0])
    return Truth(wall, 1 - times[1] / times[0] if edits else 0.0, sum(steps for steps, _ in runs[0]))


def _run(text: str, name: str, average: str) -> tuple[int, list[float]]:
    """Return the number of steps of one run, and the average step by each clock."""
    with tempfile.TemporaryDirectory() as folder:
        script, result = Path(folder, name), Path(folder, "steps.json")
        script.write_text(text, "utf-8")
        words = [sys.executable, "-m", "tests.cases.timed_steps", str(script), str(result), str(SECONDS)]
        environment = {**os.environ, **POLICIES["keep"]}
        subprocess.run(words, env=environment, check=True, capture_output=True, timeout=120)
        values = json.loads(result.read_text("utf-8"))
        return values["steps"], values[average]
