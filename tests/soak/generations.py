"""Spread between runs of `macro run`, stand-in frameworks and real ones; later reports carry it."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernels import state
from kernels.devices import open_device
from kernels.doctor import facts
from macro.networks.base import chain
from micro.command import spread
from micro.command.figure import Promise
from micro.command.selftest import better
from reports.next_run import GENERATIONS, Spread
from reports.record import Comparison
from tests.soak import injected_numpy, kept

STUB = "tests/soak/injected_numpy.py"  # as the commands name it, which run in kept.ROOT
BATCH, SIZES = 768, (256, 512, 512, 10)  # of a network whose step takes about 20 ms
STARTS = 12  # seconds of a command beside its budget, about
SEED = 7


@dataclass(frozen=True)
class Command:
    """A command of `macro run` that compares its first framework with each of the others."""

    name: str
    network: str  # "": the stubs'
    frameworks: tuple[str, ...]
    options: tuple[str, ...]
    budget: int  # seconds
    runs: int

    @property
    def pairs(self) -> list[str]:
        """The names of its pairs."""
        first, *others = (framework.rpartition(":")[2] for framework in self.frameworks)
        return [f"{self.name} {other}/{first}" for other in others]

    def words(self) -> list[str]:
        """Return the words of each of its runs."""
        network = self.network or str(_stub_network())
        words = ["run", network, "--frameworks", ",".join(self.frameworks), *self.options]
        return [*words, "--budget", f"{self.budget}s", "-q"]


STUBS = Command("stubs", "", tuple(f"{STUB}:{row}" for row in injected_numpy.ROWS), (), 12, 20)
RIVALS = ("numpy", "kernels-only")
COMMANDS = (
    STUBS,
    Command("fcn-r", "fcn-r", RIVALS, ("--batch", "128"), 15, 5),
    Command("fcn-r forward", "fcn-r", RIVALS, ("--batch", "256", "--phase", "forward"), 15, 5),
)


def figures() -> Iterator[Promise]:
    """Yield how long all runs take, and what they say together. Raises Failed."""
    files = {_file(command, number): command.words() for command in COMMANDS for number in range(command.runs)}
    yield kept.forecast("runs", files, STARTS + max(command.budget for command in COMMANDS))
    yield from spreads(_measured(COMMANDS))


def _measured(commands: Sequence[Command]) -> dict[Command, list[tuple[Comparison, ...]]]:
    """Return the comparisons of every run, commands taking turns in random order. Raises Failed."""
    done: dict[Command, list[tuple[Comparison, ...]]] = {command: [] for command in commands}
    for number in range(max(command.runs for command in commands)):
        turn = [command for command in commands if number < command.runs]
        for command in random.Random(f"{SEED} {number}").sample(turn, len(turn)):
            done[command].append(kept.run(command.words(), _file(command, number)).contests[0].comparisons)
    return done


def _file(command: Command, number: int) -> Path:
    """Return the run file of a run, on this machine as it is installed now."""
    return kept.folder("soak-generations") / f"{_machine()}-{command.name.replace(' ', '-')}-{number + 1:02}.jsonl"


@functools.cache
def _machine() -> str:
    """Return what figures of this machine are kept by."""
    return facts.machine(facts.facts([open_device("cpu")]))


def spreads(done: dict[Command, list[tuple[Comparison, ...]]]) -> Iterator[Promise]:
    """Yield how far runs lie apart and how often the next run was foreseen; keep it for reports of this machine."""
    runs = [
        spread.of_pair(GENERATIONS, pair, [comparisons[i] for comparisons in each], lambda path: path == (GENERATIONS,))
        for command, each in done.items()
        for i, pair in enumerate(command.pairs)
    ]
    between = spread.between(runs)
    yield from spread.promises(runs, spread.figures(runs, between), between, None)
    yield _remembered(between)


def _remembered(between: dict[str, Spread]) -> Promise:
    """Add the spread to the figures of the last self-test of this machine, where it is known better than before."""
    file, name = f"selftest/{_machine()}.json", "kept for later reports"
    try:
        document: dict[str, Any] = json.loads((state.folder() / file).read_bytes())
    except (OSError, ValueError):
        return Promise(name, "no: run python -m micro.selftest, then this again, which measures nothing anew", "", True)
    document["between"] = better({path: asdict(sd) for path, sd in between.items()}, document.get("between") or {})
    return Promise(name, str(state.write(file, json.dumps(document))), "", True)


def _stub_network() -> Path:
    """Write the network of the stubs; return its file."""
    path = kept.folder("soak-generations") / "stub.json"
    path.write_text(json.dumps(chain("stub", "the self-test", BATCH, SIZES, rate=0.05, momentum=0.9).data()), "utf-8")
    return path
