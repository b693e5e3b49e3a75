"""Does `explain` name what was added to one layer of a convolutional network in JAX and in TensorFlow's graphs? Twelve
injections (injected_graphs.py), each against the framework as it comes, in a run of its own whose document stays.

Right is what is named first: its layer, its kind of work, and its size, which is the gap of plain steps."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import state
from micro.command.figure import Figure
from micro.command.injected_graphs import COUNTED, EXPECTED, written
from micro.command.soak_explain import document

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
    """Six in each framework; of kinds that cannot be made (CANNOT) there are others instead."""
    return [Injection(framework, *one) for framework, drawn in DRAWN.items() for one in drawn]


DRAWN = {
    "jax": (
        ("alexnet-r", "operation again", "conv2", 3),
        ("alexnet-r", "product", "fc", 30),
        ("alexnet-r", "sums", "conv1", 8),
        ("resnet-56", "operation again", "stage2.4.conv1", 24),
        ("resnet-56", "operation again", "stage1.4.conv1", 12),
        ("alexnet-r", "operation again", "pool1", 6),
    ),
    "tensorflow-graph": (
        ("alexnet-r", "operation again", "conv2", 3),
        ("alexnet-r", "product", "fc", 30),
        ("resnet-56", "element-wise", "stage1.4.add", 80),
        ("alexnet-r", "sums", "conv1", 4),
        ("resnet-56", "sleep", "stage2.3.norm1", 60),
        ("resnet-56", "copies", "stage1.4.norm1", 240),
    ),
}


CANNOT = {
    "jax": {
        "element-wise in a ResNet": "XLA computes all sums of a stage in one loop, and what is added to one with them",
        "copies": "XLA leaves them out, or makes them part of what reads them",
        "sleep": "no span of its profiler tells what a callback waits",
    }
}


def figures() -> Iterator[Figure]:
    """Each as soon as it is known, then how many were named as they should be."""
    drawn, right = injections(), 0
    left = sum(not _there(number) for number in range(1, len(drawn) + 1))
    yield Figure("injections", f"about {SECONDS * left / 60:.0f} min; they stay in {_folder()}", "", True)
    for framework, kinds in CANNOT.items():
        for what, why in kinds.items():
            yield Figure(f"{framework}: {what}", f"cannot be made, and is not counted: {why}", "", True)
    for number, one in enumerate(drawn, 1):
        explained = explanation(number, one)
        right += (ok := named_right(one, explained))
        yield Figure(
            f"{number} of {len(drawn)}: {one.title}", f"{said(one, explained)}: {'right' if ok else 'WRONG'}", "", True
        )
    yield Figure("named first, layer, kind and size", f"{right} of {len(drawn)}", f"at least {RIGHT}", right >= RIGHT)


def _folder() -> Path:
    path = state.folder() / "soak-graphs"
    path.mkdir(exist_ok=True)
    return path


def _document(number: int) -> Path:
    return _folder() / f"{number:02}.json"


def _there(number: int) -> bool:
    """Whether there is one that says what was compiled, as older ones do not."""
    path = _document(number)
    return path.exists() and "added" in json.loads(path.read_text("utf-8"))


def explanation(number: int, one: Injection) -> dict[str, Any]:
    """What `macro explain` tells of it against the framework as it comes: one that is there, or made now. Raises
    RuntimeError."""
    path = _document(number)
    if not _there(number):
        with tempfile.TemporaryDirectory() as folder:
            plugin = written(Path(folder), one.framework, one.what, one.layer, one.many)
            words = [one.network, f"{plugin}:plugin", one.framework, "--batch", str(BATCH[one.network])]
            found = document([*words, "--budget", BUDGET])
            added = int((Path(folder) / COUNTED).read_text("utf-8"))
            path.write_text(json.dumps({**found, "added": added}), "utf-8")
    kept: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return kept


def named_right(one: Injection, explained: dict[str, Any]) -> bool:
    """Whether it is in the compiled program, what is named first is of its kind and in its layer, and all that this
    layer takes more is the gap: what was added has its memory and its own small operations too."""
    first = next(iter(explained["named"]), None)
    if (
        not explained["added"]
        or first is None
        or first["column"] not in EXPECTED[one.what]
        or not _of(one.layer, first["row"])
    ):
        return False
    size, gap = _more(one.layer, explained), float(explained["gap"])
    return bool(abs(size - gap) <= max(OFF * abs(gap), explained["resolution"]))


def _of(layer: str, row: str) -> bool:
    """Whether a row is of this layer, among others that one product serves."""
    return layer in re.split(r"[ ,;]+", row)


def _more(layer: str, explained: dict[str, Any]) -> float:
    return sum(float(cell["a"] - cell["b"]) for cell in explained["cells"] if _of(layer, cell["row"]))


def said(one: Injection, explained: dict[str, Any]) -> str:
    """How much of it was compiled, what is named first, what its layer takes more, and the gap, in milliseconds."""
    first = next(iter(explained["named"]), None)
    compiled = f"{explained['added']} instructions compiled"
    if first is None:
        return f"{compiled}; nothing named, of a gap of {1e3 * explained['gap']:.2f} ms"
    size = 1e3 * _more(one.layer, explained)
    named = f"named {first['row']}, {first['column']}"
    return f"{compiled}; {named}; {one.layer} {size:.2f} ms of {1e3 * explained['gap']:.2f} ms"
