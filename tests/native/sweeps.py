"""Do two sweeps of micro/shapes/fc.json agree? NN against NT for all its products under 1 GFLOP, twice.

Run as `python tests/native/sweeps.py`: two processes, one after the other. Exit 1 where a sweep takes longer,
or the two agree less, than promised.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2]))  # also in a checkout that is not installed

from reports import store

if TYPE_CHECKING:
    from reports.record import Run

ROOT = Path(__file__).parents[2]
SHAPES = ROOT / "micro" / "shapes" / "fc.json"
LIMIT = 1e9  # FLOP of a product
SECONDS = 40.0  # promised of a sweep, its processes' start and checks included
MEDIAN, NINTH = 0.007, 0.03  # promised of the differences between the two ratios: median, 90th percentile
OPPOSITE = {"slower", "faster"}


@dataclass(frozen=True)
class Agreement:
    """Of two runs of the same contests. median, ninth: of |r₁/r₂ − 1| over the ratios known in both."""

    compared: int
    median: float
    ninth: float
    contradictory: tuple[str, ...]
    same_against_different: tuple[str, ...]
    unresolved: int

    @property
    def held(self) -> bool:
        return self.median <= MEDIAN and self.ninth <= NINTH and not self.contradictory


def agreement(first: Run, second: Run) -> Agreement:
    """Comparisons are matched by contest, baseline and contender; `unresolved` counts those so in either."""
    import numpy as np

    others = {(x.contest, x.baseline, x.contender): x for x in second.comparisons}
    matched = [
        (x, other) for x in first.comparisons if (other := others.get((x.contest, x.baseline, x.contender))) is not None
    ]
    known = [(x.ratio, y.ratio) for x, y in matched if x.ratio is not None and y.ratio is not None]
    apart = np.array([abs(a / b - 1) for a, b in known] or [np.nan])
    verdicts = {x.contest: {x.verdict, y.verdict} for x, y in matched}
    return Agreement(
        len(known),
        float(np.median(apart)),
        float(np.percentile(apart, 90)),
        tuple(name for name, both in verdicts.items() if both == OPPOSITE),
        tuple(name for name, both in verdicts.items() if "same" in both and both & OPPOSITE),
        sum("unresolved" in both for both in verdicts.values()),
    )


def lines(found: Agreement) -> list[str]:
    """What a person reads of it; the contests whose verdicts differ by name."""
    told = [
        f"{found.compared} ratios known in both: they differ by {found.median:.2%} in the median "
        f"(promised {MEDIAN:.1%}), {found.ninth:.2%} at the 90th percentile (promised {NINTH:.1%})",
        f"contradictory verdicts: {len(found.contradictory)} (promised 0)",
        *(f"  {name}" for name in found.contradictory),
        f"same against different: {len(found.same_against_different)}",
        *(f"  {name}" for name in found.same_against_different),
        f"unresolved in either: {found.unresolved}",
    ]
    return [*told, f"agreement: {'held' if found.held else 'not held'}"]


def small(shapes: Path, folder: Path) -> tuple[Path, int]:
    """The products under LIMIT as a file of shapes of their own, and how many they are."""
    whole = json.loads(shapes.read_text())
    rows = [x for x in whole["problems"] if 2 * x["m"] * x["n"] * x["k"] < LIMIT]
    made = folder / "small.json"
    made.write_text(json.dumps(whole | {"problems": rows}))
    return made, len(rows)


def sweep(shapes: Path, output: Path) -> float:
    """One sweep in a process of its own; its wall seconds. Raises CalledProcessError."""
    command = [sys.executable, "-m", "micro.gemm", "--shapes", str(shapes), "--vary", "trans"]
    command += ["--trans", "nn,nt", "--variant", "openblas", "--budget", "27s", "-o", str(output), "-q"]
    began = time.monotonic()
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def main(argv: Sequence[str]) -> int:
    """`argv`: another file of shapes, if any."""
    runs, in_time = [], True
    with tempfile.TemporaryDirectory() as folder:
        shapes, count = small(Path(argv[0]) if argv else SHAPES, Path(folder))
        for i in (1, 2):
            output = Path(folder) / f"{i}.jsonl"
            try:
                took = sweep(shapes, output)
            except subprocess.CalledProcessError as error:
                print(f"sweeps.py: sweep {i} ends with exit code {error.returncode}", file=sys.stderr)
                return 1
            in_time = in_time and took <= SECONDS
            print(
                f"sweep {i}: {count} products in {took:.1f} s, promised {SECONDS:.0f} s: "
                f"{'held' if took <= SECONDS else 'not held'}",
                flush=True,
            )
            runs.append(store.read(output))
    found = agreement(*runs)
    print("\n".join(lines(found)))
    return 0 if in_time and found.held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
