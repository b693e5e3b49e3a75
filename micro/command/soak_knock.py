"""Does a row's time go when what it stands for is left out? Rows of the example scripts, in plain steps of the same
runs: a module that passes its input through, a parameter that is frozen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from micro.command import examples
from micro.command.examples import EXAMPLES, MODELS
from micro.command.figure import Figure
from reports import step, units
from reports.breakdown import AGREES, NARROW, Breakdown, Witness

PATHS = {
    "cnn": ("blocks.0", "blocks.0.conv1", "blocks.1.conv2", "blocks.1.norm2"),
    "lstm": ("out.weight",),
    "transformer": ("1.layers.0", "1.layers.1.linear1.weight", "1.layers.1.linear2.weight", "2.weight"),
    "mlp": ("fc1.weight", "fc2.weight", "fc2"),
}
BUDGET, AGAIN = 60, 2  # seconds a path; times at most that a script is run: a second shows what was chance
LEAST = 0.03  # of a step: smaller rows do not count
RIGHT = 10


def figures() -> Iterator[Figure]:
    """Each row, then how many agree."""
    agree = count = 0
    for script, paths in PATHS.items():
        full = [f"{MODELS[script]}.{path}" for path in paths]
        runs = [_run(script, full, 1)]
        while len(runs) < AGAIN and not all(_agrees(runs[-1], path) for path in full):
            runs.append(_run(script, full, len(runs) + 1))
        for path in full:
            agree += _agrees(runs[0], path)
            count += 1
            told = "; again: ".join(words(one, path) for one in runs[: 1 if _agrees(runs[0], path) else AGAIN])
            yield Figure(f"{script} without {path}", told, "", True)
    promised = f"at least {RIGHT}, within {AGREES:.0%} or the interval, its half at most {NARROW:.0%} of the row"
    yield Figure("rows that go when they are left out", f"{agree} of {count}", promised, agree >= RIGHT)


def _run(script: str, paths: Sequence[str], number: int) -> Breakdown:
    source: list[Path] = [EXAMPLES / f"{script}.py"]
    words = ("--budget", f"{BUDGET * len(paths)}s", "--knock-out", ",".join(paths))
    return step.of(examples.explained(f"knock-{script}-{number}", source, *words))[0]


def witness(found: Breakdown, path: str) -> Witness:
    """Of what was left out."""
    return next(one for one in found.witnesses if one.name == f"without {path}")


def _agrees(found: Breakdown, path: str) -> bool:
    """A row that is too small to count does not."""
    one = witness(found, path)
    return one.verdict == "agree" and (one.said or 0.0) >= LEAST * found.step["a"]


def words(found: Breakdown, path: str) -> str:
    """What was said and seen."""
    one = witness(found, path)
    said = "nothing" if one.said is None else f"{units.seconds(one.said)} ({one.said / found.step['a']:.1%} of a step)"
    return f"its rows say {said}, steps without it are {units.signed(-one.seen)}: {one.verdict}"
