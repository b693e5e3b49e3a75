"""Does `explain` name what was added to one layer of a convolutional network in JAX and in TensorFlow's graphs? Twelve
injections (injected_graphs.py), each against the framework as it comes, in a run of its own whose document stays.

Right is what is named first: its layer, its kind of work, and its size, which is the gap of plain steps."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import state
from micro.command.figure import Figure
from micro.command.injected_graphs import EXPECTED, written

ROOT = Path(__file__).parents[2]
BUDGET, SECONDS = "40s", 110  # of watching; about what a run takes in all, equal work proven
RIGHT = 11  # of twelve
OFF = 0.1  # of the gap that a size may be off, or the resolution, where that is more
BATCH = {"alexnet-r": 64, "resnet-56": 16}


@dataclass(frozen=True)
class Injection:
    """What is added to which layer of a network in a framework, `many` times."""

    framework: str
    network: str
    what: str
    layer: str
    many: int

    @property
    def title(self) -> str:
        """In words."""
        return f"{self.framework}, {self.network}, {self.layer}: {self.what}"


def injections() -> list[Injection]:
    """Each kind once in each framework. XLA leaves out copies, or makes them part of what reads them: there is another
    operation again instead."""
    return [Injection(framework, *one) for framework, drawn in DRAWN.items() for one in drawn]


ALIKE = (
    ("alexnet-r", "operation again", "conv2", 1),
    ("alexnet-r", "product", "fc", 30),
    ("resnet-56", "element-wise", "stage1.4.add", 24),
    ("alexnet-r", "sums", "conv1", 4),
    ("resnet-56", "sleep", "stage2.3.norm1", 20),
)
DRAWN = {
    "jax": (*ALIKE, ("alexnet-r", "operation again", "pool1", 3)),
    "tensorflow-graph": (*ALIKE, ("resnet-56", "copies", "stage1.4.norm1", 80)),
}


def figures() -> Iterator[Figure]:
    """Each as soon as it is known, then how many were named as they should be."""
    drawn, right = injections(), 0
    left = sum(not _document(number).exists() for number in range(1, len(drawn) + 1))
    yield Figure("injections", f"about {SECONDS * left / 60:.0f} min; they stay in {_folder()}", "", True)
    for number, one in enumerate(drawn, 1):
        explained = explanation(number, one)
        right += (ok := named_right(one, explained))
        yield Figure(
            f"{number} of {len(drawn)}: {one.title}", f"{said(explained)}: {'right' if ok else 'WRONG'}", "", True
        )
    yield Figure("named first, layer, kind and size", f"{right} of {len(drawn)}", f"at least {RIGHT}", right >= RIGHT)


def _folder() -> Path:
    path = state.folder() / "soak-graphs"
    path.mkdir(exist_ok=True)
    return path


def _document(number: int) -> Path:
    return _folder() / f"{number:02}.json"


def explanation(number: int, one: Injection) -> dict[str, Any]:
    """What `macro explain` tells of it against the framework as it comes: one that is there, or made now. Raises
    RuntimeError."""
    path = _document(number)
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            plugin = written(Path(folder), one.framework, one.what, one.layer, one.many)
            command = [sys.executable, "-m", "macro", "explain", one.network, f"{plugin}:plugin", one.framework]
            command += ["--batch", str(BATCH[one.network]), "--budget", BUDGET, "--json", "-", "-q"]
            ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not ran.stdout.startswith("{"):
            raise RuntimeError((ran.stderr.strip().splitlines() or ["it says nothing"])[-1])
        path.write_text(ran.stdout, "utf-8")
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


def named_right(one: Injection, explained: dict[str, Any]) -> bool:
    """Whether what is named first is the injection: its layer, its kind, its size."""
    first = next(iter(explained["named"]), None)
    if first is None or first["column"] not in EXPECTED[one.what]:
        return False
    size, gap = first["a"] - first["b"], float(explained["gap"])
    near = abs(size - gap) <= max(OFF * abs(gap), explained["resolution"])
    return bool(near and first["row"].startswith(f"{one.layer} "))


def said(explained: dict[str, Any]) -> str:
    """What is named first, and the gap, in milliseconds."""
    first = next(iter(explained["named"]), None)
    if first is None:
        return f"nothing named, of a gap of {1e3 * explained['gap']:.2f} ms"
    size = 1e3 * (first["a"] - first["b"])
    return f"named {first['row']}, {first['column']}, {size:.2f} ms of {1e3 * explained['gap']:.2f} ms"
