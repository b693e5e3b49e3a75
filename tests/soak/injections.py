"""Injections into one layer of NumPy, JAX or TensorFlow, which `explain` is to name; and NumPy against itself.

Right is what is named first: its row or layer, its kind of work, and its size, which is the seconds that were added, or
the gap of plain steps where that is no fixed time.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from micro.command.figure import Promise
from reports import units
from reports.explanation import Cell, Explanation
from tests.soak import injected_graphs, injected_numpy, kept

PLUGIN = '''"""A framework of the user's."""
import importlib.util

ROWS = {rows!r}
RECIPE = {recipe!r}
TUNED = {{}}
spec = importlib.util.spec_from_file_location("adapter", {source!r})
adapter = importlib.util.module_from_spec(spec)
spec.loader.exec_module(adapter)
globals().update(adapter.exported(ROWS["plugin"]))
'''
OFF = 0.1  # of the gap that a size may be off, or the resolution, where that is more
LAYERS, SHARES = ("fc2", "fc3"), (0.05, 0.30)  # of FCN-R, and of a step: an injection into NumPy
DRAWS, EMPTY, SEED = 24, 8, 1
SECONDS = {"numpy": 60, "graphs": 110, "sequences": 110}  # that an explanation takes, about
RIGHT = 11  # promised of the twelve in graphs
RIGHT_IN_SEQUENCES = 16  # … of the eighteen in layers of sequences
BATCH = {"alexnet-r": 64, "resnet-56": 16, "lstm-ptb": 16}
DRAWN = {  # network, kind of injection, layer, how many of it
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
IN_SEQUENCES = {
    "jax": (
        ("operation again", "lstm1", 6),
        ("operation again", "lstm2", 3),
        ("product", "lstm2", 40),
        ("product", "out", 60),
        ("sums", "out", 4),
        ("element-wise", "out", 2),
    ),
    "tensorflow-graph": (
        ("operation again", "lstm1", 6),
        ("operation again", "lstm2", 3),
        ("product", "out", 60),
        ("copies", "out", 4),
        ("element-wise", "out", 2),
        ("sleep", "lstm2", 20),
    ),
    "pytorch": (
        ("operation again", "lstm1", 6),
        ("operation again", "lstm2", 3),
        ("product", "out", 60),
        ("copies", "lstm2", 60),
        ("element-wise", "out", 2),
        ("sleep", "lstm2", 20),
    ),
}
CANNOT = {  # be made in JAX
    "element-wise in a ResNet": "XLA computes all sums of a stage in one loop, and what is added to one with them",
    "copies": "XLA leaves them out, or makes them part of what reads them",
    "sleep": "no span of its profiler tells what a callback waits",
}


@dataclass(frozen=True)
class Injection:
    """Something added to a layer of a network in a framework."""

    framework: str
    network: str
    what: str | None  # None: nothing
    layer: str
    amount: float  # share of a step in NumPy, else how many

    @property
    def title(self) -> str:
        """Its name in a figure."""
        amount = f"{self.amount:.1%} of a step" if self.framework == "numpy" else f"{self.amount} times"
        return f"{self.framework}, {self.network}, {self.layer}: {self.what}, {amount}"

    def write(self, plugin: Path) -> None:
        """Write the adapter that makes it, a framework's file as a user has it."""
        knobs = {"what": self.what, "layer": self.layer, "amount": self.amount}
        recipe: dict[str, str] = {}
        if self.framework != "numpy":
            recipe = {"environment": injected_graphs.ENVIRONMENTS[self.framework], "python": "3.11"}
            knobs |= {"adapter": recipe["environment"], "counted": str(plugin.with_suffix(".txt"))}
            knobs |= {"mode": "graph"} if self.framework.startswith("tensorflow") else {}
        source = injected_graphs if recipe else injected_numpy
        values = {"rows": {"plugin": knobs}, "recipe": recipe, "source": str(source.__file__)}
        before = plugin.read_text("utf-8") if plugin.exists() else ""
        if (text := PLUGIN.format(**values)) != before:
            plugin.with_suffix(".jsonl").unlink(missing_ok=True)  # of another injection, or of another checkout
            plugin.write_text(text, encoding="utf-8")

    def words(self, plugin: Path) -> list[str]:
        """Return the words of the `macro explain` that should name it."""
        words = ["explain", self.network, f"{plugin}:plugin", self.framework]
        if self.framework == "numpy":
            threads = injected_numpy.EXPECTED[self.what].threads if self.what else 1
            return [*words, "--runs", "1", "--threads", str(threads), "--budget", "30s", "-q"]
        return [*words, "--batch", str(BATCH[self.network]), "--budget", "40s", "-q"]


def numpy_injections() -> list[Injection]:
    """Return those into NumPy: all kinds in turn, layers and sizes by seed; then some that are nothing."""
    draw, kinds = random.Random(SEED), list(injected_numpy.EXPECTED)
    drawn = [
        Injection("numpy", "fcn-r", kinds[i % len(kinds)], draw.choice(LAYERS), draw.uniform(*SHARES))
        for i in range(DRAWS)
    ]
    return drawn + [Injection("numpy", "fcn-r", None, LAYERS[0], 0.0)] * EMPTY


def graph_injections() -> list[Injection]:
    """Return those into JAX and TensorFlow, six each."""
    return [Injection(framework, *values) for framework, drawn in DRAWN.items() for values in drawn]


def sequence_injections() -> list[Injection]:
    """Return those into LSTM-PTB, six in each framework."""
    return [Injection(framework, "lstm-ptb", *x) for framework, drawn in IN_SEQUENCES.items() for x in drawn]


def in_numpy() -> Iterator[Promise]:
    """Yield each explanation of an injection into NumPy, and how many are right."""
    right = yield from kept.explained("injections", _pairs("numpy", numpy_injections()), SECONDS["numpy"])
    named, quiet = sum(right[:DRAWS]), sum(right[DRAWS:])
    yield Promise("injections named first, of the right size", f"{named} of {DRAWS}", "all", named == DRAWS)
    yield Promise("runs without an injection that name nothing", f"{quiet} of {EMPTY}", "all", quiet == EMPTY)


def in_graphs() -> Iterator[Promise]:
    """Yield what JAX cannot have, each explanation of an injection into a graph, and how many are right."""
    for what, why in CANNOT.items():
        yield Promise(f"jax: {what}", f"cannot be made, and is not counted: {why}", "", True)
    right = yield from kept.explained("injections", _pairs("graphs", graph_injections()), SECONDS["graphs"])
    named = sum(right)
    yield Promise("named first, layer, kind and size", f"{named} of {len(right)}", f"at least {RIGHT}", named >= RIGHT)


def in_sequences() -> Iterator[Promise]:
    """Yield each explanation of an injection into LSTM-PTB, and how many are right."""
    right = yield from kept.explained("injections", _pairs("sequences", sequence_injections()), SECONDS["sequences"])
    named, least = sum(right), RIGHT_IN_SEQUENCES
    yield Promise("named first, layer, kind and size", f"{named} of {len(right)}", f"at least {least}", named >= least)


def _pairs(name: str, drawn: list[Injection]) -> list[kept.Pair]:
    """Write the adapters of the injections; return their pairs."""
    pairs = []
    for number, injection in enumerate(drawn, 1):
        plugin = kept.folder(f"soak-{name}") / f"{number:02}.py"
        injection.write(plugin)
        judge = partial(judged, injection, plugin.with_suffix(".txt"))
        pairs.append(kept.Pair(injection.title, plugin.with_suffix(".jsonl"), injection.words(plugin), judge))
    return pairs


def judged(injection: Injection, counted: Path, explained: Explanation) -> tuple[bool, str]:
    """Return whether an injection is named, and what is; in graphs `counted` holds how much of it was compiled."""
    text = _first(explained)
    if injection.framework == "numpy":
        right = named_in_numpy(injection, explained)
    else:
        compiled = int(counted.read_text("utf-8"))
        right = named_in_graph(injection, explained, compiled)
        more = units.signed(_more(injection.layer, explained))
        text = f"{compiled} instructions compiled; {text}; {injection.layer} takes {more}"
    return right, f"{text}: {'right' if right else 'WRONG'}"


def _first(explained: Explanation) -> str:
    """Format the cell that is named first, and the truth."""
    first = next(iter(explained.named), None)
    named = f"named {first.row}, {first.column}, {units.signed(first.gap)}" if first else "nothing named"
    return f"{named} of {units.signed(_truth(explained))}"


def named_in_numpy(injection: Injection, explained: Explanation) -> bool:
    """Return whether the first cell named is the injection: its row, its column, its size; or nothing, as injected."""
    first = next(iter(explained.named), None)
    if first is None or injection.what is None:
        return first is None and injection.what is None
    expected = injected_numpy.EXPECTED[injection.what]
    if first.column not in expected.columns:
        return False
    if expected.row is None:  # it is in no row of its own, and has no size of its own
        return True
    return first.row == expected.row.format(layer=injection.layer) and _near(first.gap, explained)


def named_in_graph(injection: Injection, explained: Explanation, compiled: int) -> bool:
    """Return whether a compiled injection's kind and layer are named first, and what the layer takes more is the gap.

    An addition has memory and small operations of its own.
    """
    first = next(iter(explained.named), None)
    if not compiled or first is None or not _of(injection.layer, first):
        return False
    columns = injected_graphs.EXPECTED[str(injection.what)]
    return first.column in columns and _near(_more(injection.layer, explained), explained)


def _near(size: float, explained: Explanation) -> bool:
    truth = _truth(explained)
    return abs(size - truth) <= max(OFF * abs(truth), explained.resolution)


def _truth(explained: Explanation) -> float:
    """Return the seconds that were injected, or the gap."""
    identity: dict[str, Any] = next(iter(explained.identity), {})
    return float(identity.get("injected") or explained.gap)


def _of(layer: str, cell: Cell) -> bool:
    """Return whether a cell is of this layer, among others that one operation serves."""
    return layer in re.split(r"[ ,;]+", cell.row)


def _more(layer: str, explained: Explanation) -> float:
    return sum(cell.gap for cell in explained.cells if _of(layer, cell))
