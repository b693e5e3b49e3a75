"""Does `explain` name what was hidden in a plug-in framework? Injections drawn at random, each in a run of its own, and
runs in which nothing is hidden.

Right is what is named first: the row and the column, and the size against the truth, which is the seconds that were
injected, or the gap of plain steps where that is no fixed time."""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import suite
from micro.command.figure import Figure
from micro.command.injected import EXPECTED, written

ROOT = Path(__file__).parents[2]
LAYERS = ("fc2", "fc3")
SHARES = (0.05, 0.30)  # of a step
DRAWS, EMPTY, SEED, BUDGET = 24, 8, 1, "30s"
OFF = 0.1  # of the truth that a size may be off, or the resolution, where that is more


@dataclass(frozen=True)
class Draw:
    """An injection: what it is, in which layer, its share of a step."""

    what: str | None
    layer: str
    share: float


def figures(draws: int = DRAWS, empty: int = EMPTY) -> Iterator[Figure]:
    """Each draw, then how many were named as they should be."""
    rng, right = random.Random(SEED), 0
    for i in range(draws):
        draw = Draw(list(EXPECTED)[i % len(EXPECTED)], rng.choice(LAYERS), rng.uniform(*SHARES))
        explained = explanation(draw)
        right += (ok := named_right(draw, explained))
        name = f"{draw.what} in {draw.layer}, {draw.share:.1%} of a step"
        yield Figure(name, f"{said(explained)}: {'right' if ok else 'WRONG'}", "", True)
    yield Figure("injections named first, of the right size", f"{right} of {draws}", "all", right == draws)
    quiet = sum(not explanation(Draw(None, "fc2", 0.0))["named"] for _ in range(empty))
    yield Figure("runs without an injection that name nothing", f"{quiet} of {empty}", "all", quiet == empty)


def explanation(draw: Draw) -> dict[str, Any]:
    """What `macro explain` tells of it against plain NumPy. Raises RuntimeError."""
    threads = EXPECTED[draw.what].threads if draw.what else 1
    with tempfile.TemporaryDirectory() as folder:
        plugin = written(Path(folder), draw.what, draw.layer, draw.share)
        words = ["fcn-r", f"{plugin}:plugin", "numpy", "--runs", "1", "--threads", str(threads), "--budget", BUDGET]
        return document(words)


def document(words: Sequence[str]) -> dict[str, Any]:
    """That of `macro explain WORDS`, in a process of its own. Raises RuntimeError where there is none."""
    command = suite.child("macro", "explain", *words, "--json", "-", "-q")
    ran = subprocess.run(command, cwd=ROOT, env=suite.environment(), capture_output=True, text=True, check=False)
    if not ran.stdout.startswith("{"):
        raise RuntimeError((ran.stderr.strip().splitlines() or ["it says nothing"])[-1])
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


def named_right(draw: Draw, explained: dict[str, Any]) -> bool:
    """Whether what is named first is the injection: its row, its column, its size."""
    first = next(iter(explained["named"]), None)
    if first is None or draw.what is None:
        return False
    expected = EXPECTED[draw.what]
    if first["column"] not in expected.columns:
        return False
    if expected.row is None:  # in no row of its own: neither has it a size of its own
        return True
    size, true = first["a"] - first["b"], truth(explained)
    near = abs(size - true) <= max(OFF * abs(true), explained["resolution"])
    return bool(near and first["row"] == expected.row.format(layer=draw.layer))


def truth(explained: dict[str, Any]) -> float:
    """Seconds that were injected, or the gap."""
    return float(explained["identity"][0].get("injected") or explained["gap"])


def said(explained: dict[str, Any]) -> str:
    """What is named first, and the truth, in milliseconds."""
    first = next(iter(explained["named"]), None)
    if first is None:
        return "nothing named"
    size = 1e3 * (first["a"] - first["b"])
    return f"named {first['row']}, {first['column']}, {size:.1f} ms of {1e3 * truth(explained):.1f} ms"
