"""Steps of several frameworks in turns: generations of processes, rounds of blocks, until the budget is spent."""

from __future__ import annotations

import random
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels.errors import KernelError, SuiteError
from macro.frameworks import Framework
from macro.networks.base import Network
from macro.processes import job as job_files
from macro.processes.job import Setting
from macro.processes.process import Process
from macro.timing.peak import Peak
from reports.units import counted

FEWEST = 6  # rounds of a generation
BLOCK = 0.2  # seconds of steps in a block, at least
WARM = 2  # steps before the first block
HANGS = 60.0  # seconds a block may take at least


@dataclass
class Entry:
    """One framework in one setting, and what came of it. A row of `blocks` is a round of a generation."""

    framework: Framework
    setting: Setting
    division: str = "default"
    identity: dict[str, Any] = field(default_factory=dict)
    built: dict[str, Any] = field(default_factory=dict)
    setup: list[float] = field(default_factory=list)
    blocks: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    status: str = "ok"
    reason: str | None = None
    process: Process | None = None
    count: int = 1

    def fail(self, error: SuiteError) -> None:
        """Keep why; no process is left. A kernel's error is a failure, any other a reason to skip it."""
        self.status = "failed" if isinstance(error, KernelError) else "skipped"
        self.reason, self.process = str(error), None


@dataclass(frozen=True)
class Plan:
    """What is run: a network's phase in several entries. `asked`: the network as a command names it."""

    network: Network
    batch: int
    phase: str
    seconds: float
    generations: int
    seed: int = 0
    first: int = 0  # number of its first generation, in a run taken up again
    ended: int = 0  # generations that had ended in it; one that was killed is not among them
    asked: str = ""

    def place(self, generation: int) -> str:
        """Of a generation among all that a person asked for."""
        return f"generation {generation - self.first + self.ended + 1} of {self.ended + self.generations}"

    @property
    def named(self) -> str:
        """The network, as a word of a shell."""
        return shlex.quote(self.asked or self.network.name)


@dataclass(frozen=True)
class Taken:
    """A round that has ended: `number` of `generation`, whose rounds took `seconds` so far; whether it `ended` with
    it."""

    generation: int
    number: int
    seconds: float
    ended: bool


def take(
    plan: Plan,
    entries: Sequence[Entry],
    folder: Path,
    say: Callable[[str], None],
    keep: Callable[[Taken], None] | None = None,
) -> float:
    """Fill the entries; seconds that the rounds took. An entry that fails is out, the others go on. `keep` is called
    when a round has ended."""
    threads = max((entry.setting.threads for entry in entries), default=1)
    files, peak = job_files.write_arrays(plan.network, plan.batch, folder), Peak(threads)
    spent: dict[int, float] = {}
    for generation in range(plan.first, plan.first + plan.generations):
        order, began = random.Random(plan.seed * 1000 + generation), time.monotonic()
        with ExitStack() as stack:
            alive = []
            for entry in order.sample(entries, len(entries)):  # else one would always be the first to be given memory
                if entry.status != "ok":
                    continue
                say(f"{plan.place(generation)}: starting {entry.framework.name}")
                if _start(plan, entry, files, folder, stack):
                    alive.append(entry)
            starting = time.monotonic() - began
            for taken in _rounds(plan, generation, order, alive, peak):
                spent[generation] = taken.seconds
                if keep:
                    keep(taken)
                for text in _progress(plan, taken, starting):
                    say(text)
    return sum(spent.values())


def begin(plan: Plan, entry: Entry, setting: Setting, files: dict[str, str], folder: Path, stack: ExitStack) -> Process:
    """Start an entry's process and wait until it is built; its identity goes to the entry. Raises SuiteError."""
    job = job_files.write(entry.framework, plan.network, plan.batch, setting, files, folder)
    process = stack.enter_context(Process(entry.framework, job, setting, job.with_suffix(".log")))
    entry.identity, entry.built = process.expect("hello"), process.expect("built")
    return process


def _start(plan: Plan, entry: Entry, files: dict[str, str], folder: Path, stack: ExitStack) -> bool:
    """Start and warm an entry's process, and choose how many steps make a block; whether that worked."""
    began = time.monotonic()
    try:
        entry.process = begin(plan, entry, entry.setting, files, folder, stack)
        entry.setup.append(time.monotonic() - began)
        warm = entry.process.ask(HANGS * 5, "steps", do="steps", phase=plan.phase, count=WARM)
        entry.count = max(1, round(BLOCK / max(min(warm["wall_ns"]) * 1e-9, 1e-9)))
    except SuiteError as error:
        entry.fail(error)
        return False
    return True


def _rounds(plan: Plan, generation: int, order: random.Random, alive: list[Entry], peak: Peak) -> Iterator[Taken]:
    """Rounds until this generation's share of the budget is spent, each when it has ended."""
    share, began, number, seconds = plan.seconds / plan.generations, time.monotonic(), 0, 0.0
    while alive and (number < FEWEST or seconds < share):
        for entry, block in _round(plan, order, alive, peak):
            entry.blocks.append((generation, number, block))
        number, seconds = number + 1, time.monotonic() - began
        yield Taken(generation, number - 1, seconds, not alive or (number >= FEWEST and seconds >= share))


def _progress(plan: Plan, taken: Taken, starting: float) -> Iterator[str]:
    """Signs of life after a round; after the first also whether the budget is too small."""
    share, count = plan.seconds / plan.generations, taken.number + 1
    past = taken.seconds > share and count <= FEWEST  # its rounds end it, not its share
    so_far = f"{count} of {FEWEST} rounds" if past else counted(count, "round")
    whole = "" if past else f" of {share:.0f}"
    yield f"{plan.place(taken.generation)}: {so_far}, {taken.seconds:.0f}{whole} s"
    if taken.number == 0:
        yield from over_budget(plan, taken.generation, taken.seconds, starting)


def over_budget(plan: Plan, generation: int, first: float, starting: float) -> Iterator[str]:
    """Where the fewest rounds of a generation take longer than its share of the budget: how long all will take, and
    what makes it less. `first`: seconds of the first round; `starting`: of starting the processes before it."""
    share, fewest = plan.seconds / plan.generations, first * FEWEST
    if fewest <= share:
        return
    later = plan.first + plan.generations - generation - 1
    less = ["--runs 1"] * (plan.generations > 1) + ["a smaller --batch"] * (plan.batch > 1)
    why = "longer than its share of the budget" if share else "and nothing of the budget is left"
    yield (
        f"its {FEWEST} rounds take about {fewest:.0f} s, {why}: "
        f"about {fewest - first + later * (starting + fewest):.0f} s more"
        + (f"; {' or '.join(less)} takes less" if less else "")
    )


def _round(plan: Plan, order: random.Random, alive: list[Entry], peak: Peak) -> list[tuple[Entry, dict[str, Any]]]:
    """A block of steps from each and a look at the peak, in turns, in fresh random order, while the others wait
    on their pipes. The first step of a turn is discarded: while other processes ran, the hypervisor may have reclaimed
    freed pages, and the caches are cold. An entry that fails is removed from `alive`."""
    blocks, fma = [], None
    for entry in order.sample([*alive, None], len(alive) + 1):
        if entry is None:
            fma = peak.look(_product(plan, alive))
            continue
        assert entry.process is not None
        patience = max(HANGS, 20 * entry.count * (entry.blocks[-1][2]["wall"] if entry.blocks else 1.0))
        try:
            for count in (1, entry.count):
                reply = entry.process.ask(patience, "steps", do="steps", phase=plan.phase, count=count)
        except SuiteError as error:
            entry.fail(error)
            alive.remove(entry)
            continue
        blocks.append((entry, _block(reply)))
    return [(entry, {**block, "fma": fma, "fma_threads": peak.threads}) for entry, block in blocks]


def _product(plan: Plan, alive: Sequence[Entry]) -> float:
    """Seconds that a product of a step takes, of the fastest framework: the step's, shared among its products."""
    steps = [x.blocks[-1][2]["wall"] if x.blocks else BLOCK / x.count for x in alive]
    products = sum(len(node.problems(plan.batch, plan.phase)) for node in plan.network.nodes)
    return min(steps, default=0.0) / max(1, products)


def _block(reply: dict[str, Any]) -> dict[str, Any]:
    """Seconds of one step in this block, by each clock, and what was seen beside."""
    count = len(reply["wall_ns"])
    names = ("faults", "voluntary", "involuntary")
    return {
        "wall": sum(reply["wall_ns"]) * 1e-9 / count,
        "cpu": sum(reply["cpu_ns"]) * 1e-9 / count,
        "blocked": sum(reply["blocked_ns"]) * 1e-9 / count,
        "system": sum(reply["system_ns"]) * 1e-9 / count,
        **{name: sum(reply[name]) / count for name in names},
        "foreign": reply["foreign"],
        "canary": reply["canary"],
        "peak": reply["peak_bytes"],
        "steps": count,
    }
