"""Do two sweeps of micro/shapes/fc.json agree? NN against NT for all its products under 1 GFLOP, twice, in two
processes one after the other."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernels import suite
from micro.command.figure import Figure
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


def figures() -> Iterator[Figure]:
    """How long each sweep takes, then how well they agree."""
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder:
        shapes, count = small(SHAPES, Path(folder))
        for i in (1, 2):
            name, output = f"sweep {i} of {count} products", Path(folder) / f"{i}.jsonl"
            try:
                took = sweep(shapes, output)
            except subprocess.CalledProcessError as error:
                yield Figure(name, f"ends with exit code {error.returncode}", "0", False)
                return
            yield Figure(name, f"{took:.1f} s", f"{SECONDS:.0f} s", took <= SECONDS)
            runs.append(store.read(output))
    yield from judged(agreement(*runs))


def small(shapes: Path, folder: Path) -> tuple[Path, int]:
    """The products under LIMIT as a file of shapes of their own, and how many they are."""
    whole = json.loads(shapes.read_text())
    rows = [x for x in whole["problems"] if 2 * x["m"] * x["n"] * x["k"] < LIMIT]
    path = folder / "small.json"
    path.write_text(json.dumps(whole | {"problems": rows}))
    return path, len(rows)


def sweep(shapes: Path, output: Path) -> float:
    """One sweep in a process of its own; its wall seconds. Raises CalledProcessError."""
    command = suite.child("micro.gemm", "--shapes", str(shapes), "--vary", "trans")
    command += ["--trans", "nn,nt", "--variant", "openblas", "--budget", "27s", "-o", str(output), "-q"]
    began = time.monotonic()
    subprocess.run(command, cwd=ROOT, env=suite.environment(), stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def agreement(first: Run, second: Run) -> Agreement:
    """Comparisons are matched by contest, baseline and contender; `unresolved` counts those so in either."""
    import numpy as np

    others = {(x.contest, x.baseline, x.contender): x for x in second.comparisons}
    matched = [
        (x, other) for x in first.comparisons if (other := others.get((x.contest, x.baseline, x.contender))) is not None
    ]
    ratios = [(x.ratio, y.ratio) for x, y in matched if x.ratio is not None and y.ratio is not None]
    apart = np.array([abs(a / b - 1) for a, b in ratios] or [np.nan])
    verdicts = {x.contest: {x.verdict, y.verdict} for x, y in matched}
    return Agreement(
        len(ratios),
        float(np.median(apart)),
        float(np.percentile(apart, 90)),
        tuple(name for name, both in verdicts.items() if both == OPPOSITE),
        tuple(name for name, both in verdicts.items() if "same" in both and both & OPPOSITE),
        sum("unresolved" in both for both in verdicts.values()),
    )


def judged(agreed: Agreement) -> list[Figure]:
    """The agreement as figures; the contests whose verdicts differ by name."""
    apart = f"median {agreed.median:.2%}, 90th percentile {agreed.ninth:.2%}"
    return [
        Figure(
            f"difference of the {agreed.compared} ratios known in both sweeps",
            apart,
            f"{MEDIAN:.1%} and {NINTH:.1%}",
            agreed.median <= MEDIAN and agreed.ninth <= NINTH,
        ),
        Figure("contradictory verdicts", _names(agreed.contradictory), "0", not agreed.contradictory),
        Figure("same against different", _names(agreed.same_against_different), "", True),
        Figure("unresolved in either", str(agreed.unresolved), "", True),
    ]


def _names(contests: tuple[str, ...]) -> str:
    return ", ".join((str(len(contests)), *contests))
