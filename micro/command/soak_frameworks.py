"""Is a framework called another than itself? FCN-R, over generations of processes, the whole command each time."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from kernels import suite
from micro.command.figure import Figure
from reports import store
from reports.record import Comparison

ROOT = Path(__file__).parents[2]
FRAMEWORK, TIMES, BUDGET = "pytorch", 20, "60s"
HELD = 18 / 20  # promised share of the intervals that hold 1
WIDE = 0.03  # promised median half-width


def figures(framework: str = FRAMEWORK, times: int = TIMES, budget: str = BUDGET) -> Iterator[Figure]:
    """Each run, then what they say together."""
    comparisons: list[Comparison] = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(1, times + 1):
            name = f"{framework} against itself, run {i}"
            try:
                comparisons.append(run(framework, budget, Path(folder) / f"{i}.jsonl"))
            except subprocess.CalledProcessError as error:
                yield Figure(name, f"ends with exit code {error.returncode}", "0", False)
                return
            yield Figure(name, line(comparisons[-1]), "", True)
    yield together(f"{framework} against itself", comparisons)


def run(framework: str, budget: str, output: Path) -> Comparison:
    """One run in a process of its own. Raises CalledProcessError."""
    command = suite.child("macro", "run", "fcn-r", "--frameworks", f"{framework},{framework}")
    command += ["--budget", budget, "-o", str(output), "-q"]
    subprocess.run(command, cwd=ROOT, env=suite.environment(), stdout=subprocess.DEVNULL, check=True)
    return store.read(output).comparisons[0]


def half(comparison: Comparison) -> float:
    """Half-width as a share of the ratio; infinite where there is no interval."""
    if comparison.ratio is None or comparison.low is None or comparison.high is None:
        return float("inf")
    return (comparison.high - comparison.low) / 2 / comparison.ratio


def holds(comparison: Comparison) -> bool:
    return comparison.low is not None and comparison.high is not None and comparison.low <= 1 <= comparison.high


def line(comparison: Comparison) -> str:
    if comparison.ratio is None:
        return f"no ratio: {comparison.reason}"
    return f"{comparison.ratio:.4f} [{comparison.low:.4f}, {comparison.high:.4f}], {comparison.verdict}"


def together(name: str, comparisons: Sequence[Comparison]) -> Figure:
    """How many of the intervals hold 1, and how wide they are."""
    hits, width = sum(map(holds, comparisons)), median(map(half, comparisons))
    text = f"{hits} of {len(comparisons)} intervals hold 1, median half-width {width:.2%}"
    held = hits >= HELD * len(comparisons) and width <= WIDE
    return Figure(name, text, f"{HELD:.0%} and {WIDE:.0%}", held)
