"""Runs of `macro run` for the self-test: generations of framework processes, the whole command each time."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernels import suite
from micro.contests.selftest import NAME
from reports import store
from reports.record import Contest

ROOT = Path(__file__).parents[2]
STUB = ROOT / "micro/contests/stub_framework.py"
ROWS = ("plain", "halves", "fresh", "packed", "scipy", "einsum")  # of it
SIZES = 256, 512, 512, 10  # of a network whose step takes about 20 ms
BATCH = 768


@dataclass(frozen=True)
class Generations:
    """A command: a network or the stubs', its frameworks, the first of which the others are compared with, and how
    often it is run at most."""

    name: str
    network: str
    frameworks: tuple[str, ...]
    options: tuple[str, ...]
    runs: int

    @property
    def pairs(self) -> list[str]:
        return [f"{self.name} {_short(one)}/{_short(self.frameworks[0])}" for one in self.frameworks[1:]]

    def contest(self, number: int) -> str:
        """The name of its run of this number."""
        return f"{NAME}/rival/generations/{self.name}/{number}"

    def words(self, network: str, output: Path) -> list[str]:
        """The command of one run."""
        words = suite.child("macro", "run", network, "--frameworks", ",".join(self.frameworks))
        return [*words, *self.options, "-o", str(output), "-q"]


STUBS = Generations("stubs", "", tuple(f"{STUB}:{row}" for row in ROWS), ("--budget", "12s"), 20)
REAL = (
    Generations("fcn-r", "fcn-r", ("numpy", "kernels-only"), ("--batch", "128", "--budget", "15s"), 5),
    Generations(
        "fcn-r forward",
        "fcn-r",
        ("numpy", "kernels-only"),
        ("--batch", "256", "--phase", "forward", "--budget", "15s"),
        5,
    ),
)


def run(asked: Generations, number: int) -> Contest:
    """One run in a process of its own, under the name it has in the self-test. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="kernelgap-selftest-") as folder:
        output, network = Path(folder) / "run.jsonl", asked.network
        if not network:
            network = str(Path(folder) / "stub.json")
            Path(network).write_text(json.dumps(stub_network()), "utf-8")
        subprocess.run(
            asked.words(network, output), cwd=ROOT, env=suite.environment(), stdout=subprocess.DEVNULL, check=True
        )
        return _renamed(store.read(output).contests[0], asked.contest(number))


def _renamed(contest: Contest, name: str) -> Contest:
    results = tuple(replace(result, contest=name) for result in contest.results)
    comparisons = tuple(replace(comparison, contest=name) for comparison in contest.comparisons)
    return replace(contest, contest=name, results=results, comparisons=comparisons)


def stub_network(sizes: Sequence[int] = SIZES) -> dict[str, object]:
    """As a file of a network has it."""
    last = len(sizes) - 2
    layers = [
        {
            "name": "out" if i == last else f"fc{i + 1}",
            "inputs": sizes[i],
            "outputs": sizes[i + 1],
            "activation": "none" if i == last else "sigmoid",
            "first": i == 0,
        }
        for i in range(last + 1)
    ]
    return {
        "network": "stub",
        "source": "the self-test",
        "batch": BATCH,
        "rate": 0.05,
        "momentum": 0.9,
        "layers": layers,
    }


def _short(framework: str) -> str:
    return framework.rpartition(":")[2]
