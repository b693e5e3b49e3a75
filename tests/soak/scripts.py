"""Explanations of docs/examples: with an addition, against themselves, without a row, and while nobody watches.

Each run file stays: what is stopped goes on with the run that was in flight.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import fmean, median, stdev

from micro.command.figure import Promise
from reports import attribution, stats, step, units
from reports.explanation import AGREES, NARROW, Breakdown, Explanation
from tests.soak import kept

EXAMPLES = kept.ROOT / "docs/examples"
MODELS = {"cnn": "net", "lstm": "model", "transformer": "model", "mlp": "net"}  # the variable of each script's model
RIGHT, WRONG = 11, 1  # promised: of 12 unequal pairs, at least; of 20 equal ones, at most
EQUAL = 20
NEAR = 0.1  # of the gap
SEED = 20161124
FEW = 3  # rows that a module's time may be spread over
WATCHED, TOTAL = 40, 65  # seconds of watching a pair; about what it takes in all
# What is put before a script's last line of setting up, where its model is there. `many` makes it large enough to see.
ADDED = {
    "operation twice": ("plain(*args); result = plain(*args)", None),
    "extra copy": ("[args[0].clone() for _ in range(many)]; result = plain(*args)", ("copy",)),
    "transposed copy": (
        "[args[0].transpose(-1, -2).contiguous() for _ in range(many)]; result = plain(*args)",
        ("copy", "layout reorder"),
    ),
    "fresh pages": ("fresh(many); result = plain(*args)", ("OS memory", "OS other", "clear")),
    "sleep": ("sleep(many * 1e-3); result = plain(*args)", ("waiting",)),
    "layout round trip": (
        "[args[0].movedim(1, -1).contiguous().movedim(-1, 1).contiguous() for _ in range(many)]; result = plain(*args)",
        ("copy", "layout reorder"),
    ),
}
PRELUDE = """
import mmap as _mmap
from time import sleep as _sleep

def _fresh(many):
    block = _mmap.mmap(-1, many << 20)
    block[:: 4096] = bytes(len(range(0, len(block), 4096)))
    block.close()

def _add(module, many):
    plain, fresh, sleep = module.forward, _fresh, _sleep
    def forward(*args):
        {call}
        return result
    module.forward = forward

_add({model}.get_submodule({path!r}), {many})
"""
MODULES = {  # and the kinds of their own work
    "cnn": {"blocks.0.conv1": "convolution", "blocks.1.norm2": "normalization", "pool": "pooling"},
    "lstm": {"out": "gemm", "lstm": "recurrent cell"},
    "transformer": {"1.layers.0.linear1": "gemm", "1.layers.1.linear2": "gemm", "2": "gemm"},
    "mlp": {"fc1": "gemm", "fc2": "gemm"},
}
# MiB of pages, milliseconds of sleep, else copies: 3 to 30 % of a step.
MANY = {
    "fresh pages": {"cnn": 6, "lstm": 6, "transformer": 8, "mlp": 2},
    "sleep": {"cnn": 5, "lstm": 5, "transformer": 8, "mlp": 1},
    "": {"cnn": 8, "lstm": 300, "transformer": 60, "mlp": 60},
}
LOOPS = ("last = time.perf_counter()", "count, last = 0, time.perf_counter()")


@dataclass(frozen=True)
class Injection:
    """Something added to one module of a script."""

    script: str
    path: str
    what: str
    many: int  # times, MiB or milliseconds
    kinds: tuple[str, ...]  # under which it is to be found

    @property
    def title(self) -> str:
        """Its name in a figure."""
        return f"{self.script}, {self.path}: {self.what}"

    def source(self) -> str:
        """Return the script with it: the model has just been built where the loop's clock is read first."""
        lines = example(self.script).read_text("utf-8").splitlines()
        at = next(i for i, line in enumerate(lines) if line.strip() in LOOPS)
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        call = ADDED[self.what][0]
        added = PRELUDE.format(call=call, model=MODELS[self.script], path=self.path, many=self.many)
        return "\n".join([*lines[:at], *(indent + line for line in added.splitlines()), *lines[at:], ""])


def injections() -> list[Injection]:
    """Return twelve, drawn by seed: each kind twice, in scripts and modules in turn."""
    order = random.Random(SEED)
    scripts = list(MODULES)
    drawn = []
    for i, what in enumerate([*ADDED, *ADDED]):
        script = scripts[(i + i // len(ADDED)) % len(scripts)]  # not the layout of a matrix, in mlp
        path = order.choice(sorted(MODULES[script]))
        kinds = ADDED[what][1] or (MODULES[script][path],)
        many = MANY.get(what, MANY[""])[script]
        drawn.append(Injection(script, path, what, many, kinds))
    return drawn


def words(name: str, scripts: Sequence[Path], *more: str) -> tuple[Path, list[str]]:
    """Return the run file and the words of `macro explain SCRIPTS`, whose heap keeps its memory."""
    path = kept.folder("soak-own") / f"{name}.jsonl"
    return path, ["explain", *map(str, scripts), "--heap", "keep", *more, "-q"]


def example(name: str) -> Path:
    """Return the file of an example script."""
    return EXAMPLES / f"{name}.py"


def injected() -> Iterator[Promise]:
    """Yield each pair of a script with something added and without, and how many are as they should be."""
    pairs = []
    for number, injection in enumerate(injections(), 1):
        script = kept.folder("soak-own") / f"injected-{number:02}.py"
        script.write_text(injection.source(), "utf-8")
        sides = [script, example(injection.script)]
        pairs.append(_pair(f"{number}: {injection.title}", script.stem, sides, partial(judged, injection)))
    right = sum((yield from kept.explained("pairs", pairs, TOTAL)))
    yield Promise("right cause, module and size", f"{right} of {len(pairs)}", f"at least {RIGHT}", right >= RIGHT)


def equal() -> Iterator[Promise]:
    """Yield what each pair of a script and itself names, and how many name a cell."""
    names = [list(MODULES)[number % len(MODULES)] for number in range(1, EQUAL + 1)]
    pairs = [
        _pair(f"equal {number} of {EQUAL}", f"equal-{number:02}", [example(name)] * 2, unnamed)
        for number, name in enumerate(names, 1)
    ]
    named = EQUAL - sum((yield from kept.explained("pairs", pairs, TOTAL)))
    yield Promise("equal pairs that name a cell", f"{named} of {EQUAL}", f"at most {WRONG}", named <= WRONG)


def _pair(title: str, name: str, sides: Sequence[Path], judge: Callable[[Explanation], tuple[bool, str]]) -> kept.Pair:
    return kept.Pair(title, *words(name, sides, "--budget", f"{WATCHED}s"), judge)


def unnamed(explained: Explanation) -> tuple[bool, str]:
    """Return whether no cell of equal sides is certain, and those that are."""
    cells = [cell.row for cell in explained.cells if cell.sure and abs(cell.gap) >= _least(explained)]
    return not cells, ", ".join(cells) or "nothing is named"


def _least(explained: Explanation) -> float:
    return attribution.SHOWN * max(explained.step.values())


def judged(injection: Injection, explained: Explanation) -> tuple[bool, str]:
    """Return whether the first certain cause is of its kind, in its module or a few rows, and the module's gap all."""
    causes = [bar for bar in explained.bars["cause"] if bar.sure and abs(bar.gap) >= _least(explained)]
    if not causes:
        return False, f"MISSED: no cause is certain, the gap is {units.signed(explained.gap)}"
    path = f"{MODELS[injection.script]}.{injection.path}"
    cells = sorted((c for c in explained.cells if c.column in injection.kinds), key=lambda c: -c.gap)[:FEW]
    there = any(cell.row.startswith(path) for cell in cells)
    inside = sum(cell.gap for cell in explained.cells if cell.row.startswith(path))  # with allocation and dispatch
    near = abs(inside - explained.gap) <= max(NEAR * abs(explained.gap), _resolution(explained, path))
    checks = (("module", there), ("size", near), ("kind", causes[0].name in injection.kinds))
    faults = [word for word, is_right in checks if not is_right]
    text = f"{causes[0].name} {units.signed(causes[0].gap)} first, in its module {units.signed(inside)}"
    return (
        not faults,
        f"{text}, of {units.signed(explained.gap)}: {'WRONG ' * bool(faults) + ', '.join(faults) or 'right'}",
    )


def _resolution(explained: Explanation, path: str) -> float:
    """Return the half-width of the interval of a module's time (in watched steps) less the gap (of plain ones)."""
    ends = [explained.interval, *((x.low, x.high) for x in explained.bars.get("layer", ()) if x.name == path)]
    return math.hypot(*((high - low) / 2 for low, high in ends if low is not None and high is not None))


# Rows whose time should go when what they stand for is left out: a module that passes its input through, a parameter
# that is frozen.
PATHS = {
    "cnn": ("blocks.0", "blocks.0.conv1", "blocks.1.conv2", "blocks.1.norm2"),
    "lstm": ("out.weight",),
    "transformer": ("1.layers.0", "1.layers.1.linear1.weight", "1.layers.1.linear2.weight", "2.weight"),
    "mlp": ("fc1.weight", "fc2.weight", "fc2"),
}
PATH_SECONDS, RUNS = 60, 2  # of watching a path; runs of a script at most: a second shows what was chance
LEAST = 0.03  # of a step: smaller rows do not count
GO = 10  # promised rows that go


def knocked_out() -> Iterator[Promise]:
    """Yield what each row's time and the steps without it are, and how many agree."""
    agree = count = 0
    for script, paths in PATHS.items():
        full = [f"{MODELS[script]}.{path}" for path in paths]
        runs = [_without(script, full, 1)]
        while len(runs) < RUNS and not all(witness(runs[-1], path)[0] for path in full):
            runs.append(_without(script, full, len(runs) + 1))
        for path in full:
            seen = [witness(run, path) for run in runs]
            agree, count = agree + seen[0][0], count + 1
            text = "; again: ".join(text for _, text in seen[: 1 if seen[0][0] else RUNS])
            yield Promise(f"{script} without {path}", text, "", True)
    promised = f"at least {GO}, within {AGREES:.0%} or the interval, its half at most {NARROW:.0%} of the row"
    yield Promise("rows that go when they are left out", f"{agree} of {count}", promised, agree >= GO)


def _without(script: str, paths: Sequence[str], number: int) -> Breakdown:
    more = ("--budget", f"{PATH_SECONDS * len(paths)}s", "--knock-out", ",".join(paths))
    path, command = words(f"knock-{script}-{number}", [example(script)], *more)
    return step.of(kept.run(command, path))[0]


def witness(step_parts: Breakdown, path: str) -> tuple[bool, str]:
    """Return whether a row agrees with the steps without it, and both; a row too small to count does not."""
    seen = next(x for x in step_parts.witnesses if x.name == f"without {path}")
    agrees = seen.verdict == "agree" and (seen.attributed or 0.0) >= LEAST * step_parts.step["a"]
    share = (seen.attributed or 0.0) / step_parts.step["a"]
    row = "nothing" if seen.attributed is None else f"{units.seconds(seen.attributed)} ({share:.1%} of a step)"
    return agrees, f"its rows say {row}, steps without it are {units.signed(-seen.seen)}: {seen.verdict}"


# Is the plain step that is watched the script's? By the step times that it prints when it runs by itself, in fresh
# processes in turns, on the same heap.
FEWEST, MOST = 8, 24  # pairs of processes of a script
KNOWN = 0.02  # half of its interval: more pairs are no use
SECONDS = 12  # of a script by itself, and of watching it
WARM = 4.0  # seconds of its steps that are not counted: the watched ones come later too
INSIDE = (0.97, 1.03)
PRINTED = re.compile(r"step (\d+\.\d+)$", re.MULTILINE)


def plain() -> Iterator[Promise]:
    """Yield each script's plain step over the step that it prints, of pairs until that is known, wherever it is."""
    for script in MODELS:
        logs, half = list[float](), math.inf
        while half > KNOWN and len(logs) < MOST:
            logs.append(math.log(_watched_step(script, len(logs) + 1) / _printed_step(script, len(logs) + 1)))
            half = _half(logs)
        low, middle, high = (math.exp(fmean(logs) + x) for x in (-half, 0.0, half))
        promised = f"interval inside {INSIDE[0]} to {INSIDE[1]}"
        text = f"{middle:.3f} [{low:.3f}, {high:.3f}] of {len(logs)} pairs"
        held = INSIDE[0] <= low and high <= INSIDE[1]
        yield Promise(f"{script}: plain steps over its own", text, promised, held)


def _half(logs: Sequence[float]) -> float:
    """Return the half of the interval of their mean."""
    if len(logs) < FEWEST:
        return math.inf
    return stats.Estimate(0.0, ((len(logs) - 1, stdev(logs) / math.sqrt(len(logs))),)).half(1 - stats.SHOWN)


def _watched(script: str, number: int) -> tuple[Path, Breakdown]:
    path, command = words(f"plain-{script}-{number}", [example(script)], "--budget", f"{SECONDS}s")
    return path, step.of(kept.run(command, path))[0]


def _watched_step(script: str, number: int) -> float:
    """Return the seconds of a plain step when it is watched: the median block."""
    path, _ = _watched(script, number)
    lines = (json.loads(line) for line in path.with_suffix(".kg").read_text("utf-8").splitlines())
    seconds: list[float] = next(x["watched"]["levels"]["P0"] for x in lines if x["kind"] == "process")
    return median(seconds)


def _printed_step(script: str, number: int) -> float:
    """Return the seconds of a step that the script prints by itself: the median of means over as long as a block."""
    path = kept.folder("soak-own") / f"own-{script}-{number}.txt"
    if not path.exists():
        part = path.with_suffix(".part")
        _by_itself(example(script), _watched(script, number)[1].program["variables"], part)
        part.replace(path)
    return median(blocks([float(x) for x in PRINTED.findall(path.read_text("utf-8"))]))


def _by_itself(script: Path, variables: Mapping[str, str], output: Path) -> None:
    """Run a script for a while with the variables of the watched one, its heap's among them."""
    with output.open("wb") as stream:
        ran = subprocess.Popen([sys.executable, "-u", str(script)], stdout=stream, env={**os.environ, **variables})
        try:
            with suppress(subprocess.TimeoutExpired):
                ran.wait(SECONDS + WARM)
        finally:
            ran.kill()
            ran.wait()


def blocks(steps: Sequence[float], least: float = 0.1) -> list[float]:
    """Return means of consecutive steps that take `least` seconds together, behind those of the first seconds."""
    means, part = list[float](), list[float]()
    for seconds in steps[sum(spent <= WARM for spent in accumulate(steps)) :]:
        part.append(seconds)
        if sum(part) >= least:
            means.append(fmean(part))
            part = []
    return means
