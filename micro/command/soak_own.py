"""Is the right cause of a gap named, and its module? Scripts as users write them (docs/examples), each with something
added to one module, against themselves as they come, in turns; and equal pairs, in which nothing may be named.

Each pair is a `macro explain A.py B.py` of its own, whose run file stays: what is stopped or killed goes on with the
pair that was in flight.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from micro.command import examples
from micro.command.examples import EXAMPLES, MODELS
from micro.command.figure import Figure
from reports import attribution, units
from reports.explanation import Explanation

BUDGET, SECONDS = 40, 65  # of watching a pair; about what it takes in all
RIGHT, WRONG = 11, 1  # promised: of 12 unequal pairs, at least; of 20 equal ones, at most
EQUAL = 20
NEAR = 0.1  # of the gap
SEED = 20161124
FEW = 3  # rows that a module's time may be spread over
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
    """What is added to one module of a script, `many` times or of them; under which kinds it is to be found."""

    script: str
    path: str
    what: str
    many: int
    kinds: tuple[str, ...]

    @property
    def title(self) -> str:
        """In words."""
        return f"{self.script}, {self.path}: {self.what}"

    def source(self) -> str:
        """The script with it. The model has just been made where the loop's clock is read first."""
        lines = (EXAMPLES / f"{self.script}.py").read_text("utf-8").splitlines()
        at = next(i for i, line in enumerate(lines) if line.strip() in LOOPS)
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        call = ADDED[self.what][0]
        added = PRELUDE.format(call=call, model=MODELS[self.script], path=self.path, many=self.many)
        return "\n".join([*lines[:at], *(indent + line for line in added.splitlines()), *lines[at:], ""])


def injections() -> list[Injection]:
    """Twelve, drawn by seed: each kind twice, in scripts and modules in turn."""
    order = random.Random(SEED)
    scripts = list(MODULES)
    drawn = []
    for i, what in enumerate([*ADDED, *ADDED]):
        script = scripts[(i + i // len(ADDED)) % len(scripts)]  # not the layout of a matrix, in mlp
        path = order.choice(sorted(MODULES[script]))
        own = ADDED[what][1] or (MODULES[script][path],)
        many = MANY.get(what, MANY[""])[script]
        drawn.append(Injection(script, path, what, many, own))
    return drawn


def injected() -> Iterator[Figure]:
    """Each pair as soon as it is known, and how many are as they should be."""
    yield _forecast(len(injections()))
    right, drawn = 0, injections()
    for number, one in enumerate(drawn, 1):
        script = examples.folder() / f"injected-{number:02}.py"
        script.write_text(one.source(), "utf-8")
        explained = _measured(f"injected-{number:02}", [script, EXAMPLES / f"{one.script}.py"])
        held, text = judged(one, explained)
        right += held
        yield Figure(f"{number} of {len(drawn)}: {one.title}", text, "", True)
    yield Figure("right cause, module and size", f"{right} of {len(drawn)}", f"at least {RIGHT}", right >= RIGHT)


def equal() -> Iterator[Figure]:
    """As `injected`: pairs of a script and itself."""
    yield _forecast(EQUAL)
    named, scripts = 0, list(MODULES)
    for number in range(1, EQUAL + 1):
        script = EXAMPLES / f"{scripts[number % len(scripts)]}.py"
        explained = _measured(f"equal-{number:02}", [script, script])
        cells = [cell.row for cell in explained.cells if cell.sure and abs(cell.gap) >= _least(explained)]
        named += bool(cells)
        yield Figure(f"equal {number} of {EQUAL}", ", ".join(cells) or "nothing is named", "", True)
    yield Figure("equal pairs that name a cell", f"{named} of {EQUAL}", f"at most {WRONG}", named <= WRONG)


def _forecast(pairs: int) -> Figure:
    return Figure("pairs", f"about {SECONDS * pairs / 60:.0f} min; they stay in {examples.place()}", "", True)


def _least(explained: Explanation) -> float:
    return attribution.SHOWN * max(explained.step.values())


def judged(one: Injection, explained: Explanation) -> tuple[bool, str]:
    """Whether the first certain cause is of its kind, in its module or a few rows, and that module's gap all of it."""
    causes = [bar for bar in explained.bars["cause"] if bar.sure and abs(bar.gap) >= _least(explained)]
    if not causes:
        return False, f"MISSED: no cause is certain, the gap is {units.signed(explained.gap)}"
    path = f"{MODELS[one.script]}.{one.path}"
    cells = sorted((c for c in explained.cells if c.column in one.kinds), key=lambda c: -c.gap)[:FEW]
    there = any(cell.row.startswith(path) for cell in cells)
    own = sum(cell.gap for cell in explained.cells if cell.row.startswith(path))  # allocating and dispatch are its too
    low, high = explained.interval
    near = abs(own - explained.gap) <= max(NEAR * abs(explained.gap), (high - low) / 2)
    words = (
        f"{causes[0].name} {units.signed(causes[0].gap)} first, in its module {units.signed(own)}, of "
        f"{units.signed(explained.gap)}"
    )
    faults = [
        word
        for word, bad in (("module", not there), ("size", not near), ("kind", causes[0].name not in one.kinds))
        if bad
    ]
    return not faults, f"{words}: {'WRONG ' + ', '.join(faults) if faults else 'right'}"


def _measured(name: str, scripts: Sequence[Path]) -> Explanation:
    """A pair of which a run file is there, or in a process of its own."""
    return attribution.of(examples.explained(name, scripts, "--budget", f"{BUDGET}s"))[0]
