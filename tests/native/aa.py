"""A framework against itself over generations of processes: how often is it called another?

Run as `python tests/native/aa.py [FRAMEWORK]`: FCN-R, `--times` runs of the whole command, one after another.
Exit 1 where fewer 95 % intervals hold 1, or their median half-width is larger, than promised.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2]))  # also in a checkout that is not installed

from reports import store

if TYPE_CHECKING:
    from reports.record import Comparison

ROOT = Path(__file__).parents[2]
HELD = 18 / 20  # promised share of the intervals that hold 1
WIDE = 0.03  # promised median half-width


def run(framework: str, budget: str, output: Path) -> Comparison:
    """One run in a process of its own. Raises CalledProcessError."""
    command = [sys.executable, "-m", "macro", "run", "fcn-r", "--frameworks", f"{framework},{framework}"]
    command += ["--budget", budget, "-o", str(output), "-q"]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return store.read(output).comparisons[0]


def half(found: Comparison) -> float:
    """Half-width as a share of the ratio; infinite where there is no interval."""
    if found.ratio is None or found.low is None or found.high is None:
        return float("inf")
    return (found.high - found.low) / 2 / found.ratio


def holds(found: Comparison) -> bool:
    return found.low is not None and found.high is not None and found.low <= 1 <= found.high


def line(found: Comparison) -> str:
    if found.ratio is None:
        return f"no ratio: {found.reason}"
    return f"{found.ratio:.4f} [{found.low:.4f}, {found.high:.4f}], {found.verdict}"


def report(found: Sequence[Comparison]) -> tuple[str, bool]:
    """What the runs say together, and whether it is as promised."""
    hits, width = sum(map(holds, found)), median(map(half, found))
    held = hits >= HELD * len(found) and width <= WIDE
    return (
        f"{hits} of {len(found)} intervals hold 1 (promised {HELD:.0%}), median half-width {width:.2%} "
        f"(promised {WIDE:.0%}): {'held' if held else 'not held'}"
    ), held


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("aa.py", description="A framework against itself, many times.")
    parser.add_argument("framework", nargs="?", default="pytorch")
    parser.add_argument("--times", type=int, default=20, metavar="N", help="runs (20)")
    parser.add_argument("--budget", default="60s", metavar="TIME", help="of each (60s)")
    asked, found = parser.parse_args(argv), []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(asked.times):
            try:
                found.append(run(asked.framework, asked.budget, Path(folder) / f"{i}.jsonl"))
            except subprocess.CalledProcessError as error:
                print(f"aa.py: run {i + 1} ends with exit code {error.returncode}", file=sys.stderr)
                return 1
            print(f"run {i + 1}: {line(found[-1])}", flush=True)
    text, held = report(found)
    print(text)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
