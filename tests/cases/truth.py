"""The true seconds of a script's step, and what its remedy saves: both run by themselves, in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernels.heap import POLICIES

TURNS = 2
SECONDS = 3.0  # of steps per turn and variant
CLOCKS = ("wall", "processor")  # the columns of a run's times


def edited(text: str, edits: Sequence[Sequence[str]]) -> str:
    """Return a script with a remedy's replacements; raise ValueError if one does not apply."""
    for old, new in edits:
        if old not in text:
            raise ValueError(f"the remedy's {old!r} is not in the script")
        text = text.replace(old, new)
    return text


def measured(script: Path, edits: Sequence[Sequence[str]], clock: str, average: str) -> dict[str, float]:
    """Return a step's median seconds, and the share that the remedy saves; freed memory is kept, as in reports."""
    text, at = script.read_text("utf-8"), CLOCKS.index(clock)
    variants = [text, edited(text, edits)] if edits else [text]
    runs = [[_run(variant, script.name) for variant in variants] for _ in range(TURNS)]
    times = [statistics.median(x[average][at] for x in column) for column in zip(*runs, strict=True)]
    return {"step": statistics.median(turn[0]["median"][at] for turn in runs), "saving": 1 - times[-1] / times[0]}


def _run(text: str, name: str) -> dict[str, list[float]]:
    """Return the median and the mean step of one run, each by every clock."""
    with tempfile.TemporaryDirectory() as folder:
        script, result = Path(folder, name), Path(folder, "steps.json")
        script.write_text(text, "utf-8")
        words = [sys.executable, "-m", "tests.cases.timed_steps", str(script), str(result), str(SECONDS)]
        subprocess.run(words, env={**os.environ, **POLICIES["keep"]}, check=True, capture_output=True, timeout=120)
        return dict(json.loads(result.read_text("utf-8")))
