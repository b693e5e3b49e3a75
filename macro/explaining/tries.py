"""Remedies for a program's step: which apply, what each saves at most, and what trials of them saved."""

from __future__ import annotations

import math
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels.heap import POLICIES
from macro.explaining import settings
from reports import company
from reports.explanation import Breakdown, Part
from reports.units import seconds

AGAIN = "compiled"  # in the reason of a trial that is refused for the script's compiled code alone
MOST = 4  # remedies that were not tried, at most
TRIALS, SHORT = (2, 4), 0.05  # trials of advice in a watched process, at most: of long, of short steps in seconds
LIKELY = 0.5  # share of a bound that is likely to be saved
SAME_FAULTS, SAME = 64, 0.1  # page faults of a step, and their share, by which two heaps may differ and be alike
OVERHEAD = (
    *("OS memory", "OS other", "malloc", "dispatch", "interpreter", "tracer", "data", "waiting", "spin"),
    *("layout reorder", "copy", "cast", "clear", "random numbers"),
)
IDLE = ("waiting", "spin")  # kinds of work that is none
COLLATED = ("stack", "cat")  # operations that make a batch of samples
HANDED, PER_NUMBER = 0.5e-3, 1e-9  # seconds at least to hand over a batch by a worker: each batch, each number
CASTS = ("data", "forward", "backward", "loss", "copy", "script")  # phases in which a program casts
MANY_CASTS = 0.05  # least share of a step that a phase's casts take, if they are worth a word
PASSES = ("cast", "copy", "clear", "element-wise", "reduction", "OS memory", "malloc", "dispatch")
READ = ("element-wise", "reduction")
WORTH = 0.02  # least saving, as a share of a step, of a measure that is suggested
KEEP = " ".join(f"{name}={value}" for name, value in POLICIES["keep"].items())
TEXTS = tomllib.loads(Path(__file__).with_name("remedies.toml").read_text("utf-8").replace("<keep>", KEEP))


@dataclass(frozen=True)
class Try:
    """A remedy that may speed up a program, with the edit or variable that applies it; see remedies.toml."""

    name: str
    do: str  # what the user edits or sets
    measure: str = ""  # how to measure the saving
    edit: bool = True  # the program is edited; False: an environment variable is set
    kinds: Sequence[str] = ()  # kinds of work whose time it saves at most; empty: any
    phases: Sequence[str] = ()  # phases, likewise
    called: Sequence[str] = ()  # operations, likewise
    needs: Sequence[str] = ()  # operations that a step must call, alternatives with |
    often: int = 1  # calls of each of these in a step, at least
    together: Sequence[str] = ()  # the same, in one module, whose time it saves at most
    axes: int = 0  # of the inputs of operations in `needs`; 0: any
    line: str = ""  # pattern of the source lines whose time it saves at most
    when: Mapping[str, Any] = field(default_factory=dict)  # facts that must hold, see settings.py
    unless: Mapping[str, Any] = field(default_factory=dict)  # facts that must not
    trial: str = ""  # the name of the trial that makes it; empty: none
    change: str = ""  # the change of `macro whatif` that makes it; empty: none
    least: float = WORTH  # least saving, as a share of a step, from which on it is suggested

    def most(self, breakdown: Breakdown, facts: Mapping[str, Any]) -> float:
        """Return an upper bound of the seconds of a step that the remedy saves; `facts`: see settings.py."""
        if any(facts.get(x) != value for x, value in self.when.items()):
            return 0.0
        if any(facts.get(x) == value for x, value in self.unless.items()):
            return 0.0
        if not all(self._paths(breakdown, name, self.axes) for name in self.needs):
            return 0.0
        if self.name in ESTIMATES:
            return ESTIMATES[self.name](breakdown)
        if self.line:
            return sum(line.seconds for line in breakdown.lines if re.search(self.line, line.text))
        if not self.together:
            return sum(self._of(cell) for cell in breakdown.cells)
        paths = set.intersection(*(self._paths(breakdown, name) for name in self.together))
        return sum(self._of(cell) for cell in breakdown.cells if cell.path in paths)

    def _paths(self, breakdown: Breakdown, names: str, axes: int = 0) -> set[str]:
        """Return the modules that call one of these operations, on inputs of so many axes."""
        places = [breakdown.called[name] for name in names.split("|") if name in breakdown.called]
        return {path for x in places for path in x.paths if axes in (0, x.axes) and x.calls >= self.often}

    def _of(self, cell: Part) -> float:
        """Return the seconds of a cell that the remedy may save."""
        if (self.kinds and cell.column not in self.kinds) or (self.phases and cell.phase not in self.phases):
            return 0.0
        if not self.called:
            return cell.a
        return sum(x.seconds for x in cell.operations if x.name in self.called)


def kept(breakdown: Breakdown) -> tuple[float, bool]:
    """Return the seconds saved by keeping freed memory, and whether they are certain: page faults differ alike."""
    started, step = breakdown.started, breakdown.step["a"]
    difference, faults = started["seconds"] - step, breakdown.faults.get("P0", 0.0)
    more = started["faults"] - faults
    half = math.hypot(started["high"] - started["seconds"], breakdown.interval[1] - step)
    alike = abs(more) > max(SAME_FAULTS, SAME * faults) and more * difference > 0
    return difference, alike and abs(difference) > half and not company.disturbs(breakdown)


def _heap(breakdown: Breakdown) -> float:
    if breakdown.started:
        difference, sure = kept(breakdown)
        return difference if sure else 0.0
    return (
        sum(share.a for share in breakdown.kinds if share.name == "OS memory")
        if breakdown.program["heap"] != "keep"
        else 0.0
    )


def _sparse(breakdown: Breakdown) -> float:
    """Return the seconds of a dense embedding's gradient and of what clears and updates the parameters."""
    phases = ("update", "zero")
    gradients = [x for cell in breakdown.cells for x in cell.operations if x.name == "embedding_dense_backward"]
    return sum(x.seconds for x in gradients) + sum(cell.a for cell in breakdown.cells if cell.phase in phases)


def _vendor(breakdown: Breakdown) -> float:
    """Return the GEMM seconds above the ceiling if MKL runs its generic (non-Intel) kernels, else 0."""
    generic = any(cell.column == "gemm" and (cell.seen or "").startswith("mkl_blas_def") for cell in breakdown.cells)
    return sum(share.left or 0.0 for share in breakdown.kinds if share.name == "gemm") if generic else 0.0


def _grown(breakdown: Breakdown) -> float:
    """Return what a step takes more than the program's first step, by its growth."""
    if not (grown := breakdown.growth):
        return 0.0
    return breakdown.step["a"] - max(0.0, grown.first - grown.slope * grown.begin)


def _idle(breakdown: Breakdown) -> float:
    """Return the seconds of arithmetic and of passes that cores without a thread could share."""
    cores = (breakdown.program.get("settings") or {}).get("cores") or 1
    shared = sum(share.a for share in breakdown.kinds if share.name not in OVERHEAD)
    return max(0.0, shared * (1 - breakdown.threads / cores))


def _waited(breakdown: Breakdown) -> float:
    """Return the waits of all threads outside the data's phase, less those for work that one thread has to do."""
    cores = (breakdown.program.get("settings") or {}).get("cores") or breakdown.threads
    waits, works = 0.0, 0.0
    for cell in breakdown.cells:
        if cell.column not in IDLE:
            works += cell.a
        elif cell.phase != "data":
            waits += cell.a
    return max(0.0, waits - (min(breakdown.threads, cores) - 1) * works)


def _beside(breakdown: Breakdown) -> float:
    """Return what free cores save by loading beside the step, less what handing over a batch costs at least."""
    seen, cells = breakdown.program.get("settings") or {}, [cell for cell in breakdown.cells if cell.phase == "data"]
    data, waits = sum(cell.a for cell in cells), sum(cell.a for cell in cells if cell.column == "waiting")
    rest, computes = breakdown.step["a"] - data, data - waits
    threads = breakdown.threads
    cores = float(seen.get("cores") or threads)
    least = max(rest, computes / max(1.0, cores - threads), (computes + threads * rest) / cores)
    collated = [settings.count(x.shape) for cell in cells for x in cell.operations if x.name in COLLATED and x.shape]
    samples = min((x["batch"] or 0 for x in seen.get("loaders", ())), default=0)
    return breakdown.step["a"] - least - HANDED - PER_NUMBER * samples * max(collated, default=0)


def _casts(breakdown: Breakdown) -> float:
    """Return the seconds of casts, and what other passes over memory may lose to them.

    Those of the same phases find other caches; others may wait for what casts wrote to leave them, half of their time.
    """
    cast = {cell.phase: 0.0 for cell in breakdown.cells}
    for cell in breakdown.cells:
        cast[cell.phase] += cell.a if cell.column == "cast" and cell.phase in CASTS else 0.0
    phases = [phase for phase, took in cast.items() if took >= MANY_CASTS * breakdown.step["a"]]
    within = sum(cell.a for cell in breakdown.cells if cell.phase in phases and cell.column in PASSES)
    after = [cell.a for cell in breakdown.cells if cell.phase not in phases and cell.column in READ]
    return within + sum(after) / 2 if phases else 0.0


ESTIMATES = {
    "no change of type": _casts,
    "a data loader beside the step": _beside,
    "MKL's vendor check": _vendor,
    "keep freed memory": _heap,
    "sparse gradients": _sparse,
    "detach what is kept": _grown,
    "more threads": _idle,
    "fewer threads": _waited,
}
TRIES = [Try(name, **texts) for name, texts in TEXTS["program"].items()]


def edits(breakdown: Breakdown) -> dict[str, tuple[str, float]]:
    """Return the remedies that edit the program, by name, with the most seconds of a step that each saves."""
    facts = settings.facts_of(breakdown)
    return {remedy.name: (remedy.do, remedy.most(breakdown, facts)) for remedy in TRIES if remedy.edit}


def sentences(breakdown: Breakdown) -> Iterator[str]:
    """Yield the remedies by what they saved when tried, or may save; then what is not certain to save anything."""
    tried, facts = {trial.name: trial for trial in breakdown.trials}, settings.facts_of(breakdown)
    applicable = [(most, remedy, tried.get(remedy.trial.format(**facts))) for most, remedy in worth(breakdown, facts)]
    advice = [
        (trial.saves, remedy, settings.effect_of(trial), "")
        for _, remedy, trial in applicable
        if trial and trial.low > 0
    ]
    for most, remedy, _ in sorted((x for x in applicable if x[2] is None), key=_most)[:MOST]:
        advice.append((LIKELY * most, remedy, _at_most(remedy, most, breakdown), remedy.change.format(**facts)))
    script, words = breakdown.program["script"], breakdown.program.get("arguments", ())
    arguments = f" -- {shlex.join(words)}" if words else ""
    for _, remedy, effect, change in sorted(advice, key=_most):
        measure = remedy.measure or (f"python -m macro whatif {script} {change}{arguments}" if change else "")
        more = f" Measure: {measure}" if measure else ""
        yield f"To try: {remedy.name}: {effect}. Do: {remedy.do.replace('<cores>', str(int(facts['cores'])))}.{more}"
    for _, remedy, trial in sorted(applicable, key=_most):
        if trial and trial.low <= 0:
            few = trial.high < WORTH * breakdown.step["a"]
            yield f"{'Not worth it' if few else 'Undecided'}: {remedy.name} {settings.effect_of(trial)}."


def _at_most(remedy: Try, most: float, breakdown: Breakdown) -> str:
    if breakdown.started and remedy.name == "keep freed memory":
        return f"saves {seconds(most)} of a step on the initial heap, measured here"
    return f"saves at most {seconds(most)} of a step"


def _most(advice: Sequence[Any]) -> float:
    return -float(advice[0])


def worth(breakdown: Breakdown, facts: Mapping[str, Any]) -> Iterator[tuple[float, Try]]:
    """Yield the remedies that may save enough, with the most seconds of a step that each saves."""
    refused = breakdown.program.get("refused", {})
    for remedy in TRIES:
        if AGAIN not in refused.get(remedy.trial.format(**facts), AGAIN):
            continue  # it is so already, or cannot be
        if (most := remedy.most(breakdown, facts)) >= remedy.least * breakdown.step["a"]:
            yield most, remedy


def trials(breakdown: Breakdown) -> list[str]:
    """Return the names of the trials to make: settings first, then the remedies with the largest bounds."""
    if company.disturbs(breakdown):
        return []
    facts = settings.facts_of(breakdown)
    remedies = [x.trial.format(**facts) for _, x in sorted(worth(breakdown, facts), key=lambda x: -x[0]) if x.trial]
    return list(dict.fromkeys([*settings.trials(facts), *remedies]))[: TRIALS[breakdown.step["a"] <= SHORT]]
