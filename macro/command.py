"""What the commands of macro share: their options, and what the words of those mean."""

from __future__ import annotations

import argparse
import string
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernels.errors import UsageError
from kernels.heap import POLICIES
from macro.frameworks import Framework, find
from macro.processes.job import Setting
from reports.parser import OneLineParser

if TYPE_CHECKING:
    from macro.networks.base import Network

DEFAULT = "numpy,kernels-only,pytorch,jax"
DIVISIONS = ("default", "tuned")
LETTERS = string.ascii_lowercase[1:]  # of twins


def parser(command: str, about: str | None) -> argparse.ArgumentParser:
    """With the options of every command that runs frameworks."""
    options = OneLineParser(f"python -m macro {command}", description=about, allow_abbrev=False)
    options.add_argument("network", help="fcn-s, alexnet-r, resnet-56, …, or of your own, net.json, net.py:NAME")
    options.add_argument("--frameworks", default=DEFAULT, metavar="NAMES", help=f"comma-separated ({DEFAULT})")
    options.add_argument("--batch", type=int, metavar="N", help="samples of a step (the network's own)")
    options.add_argument("--threads", default="1", metavar="N", help="threads of every framework (1)")
    return options


def network(name: str) -> Network:
    """By name or file. Raises UsageError."""
    from macro import networks

    return networks.find(name)


def batch(asked: int | None, net: Network) -> int:
    """What was asked for, or else the network's own. Raises UsageError."""
    count = net.batch if asked is None else asked
    if count < 1:
        raise UsageError(f"--batch {asked}: take 1 or more")
    return count


def frameworks(text: str) -> list[Framework]:
    """Rows by name; `all` is every one there is; one named again is its own twin, `row~b`. Raises UsageError."""
    from macro.frameworks import names

    asked = names() if text == "all" else [name for name in text.split(",") if name]
    if not asked:
        raise UsageError(f"--frameworks {text}: name at least one; there are {', '.join(names())}")
    return [find(name) for name in twins(asked)]


def twins(asked: Sequence[str]) -> list[str]:
    """Each name once: the second `row` is `row~b`, the third `row~c`. Raises UsageError."""
    names: list[str] = []
    for name in asked:
        free = (x for x in (name, *(f"{name}~{letter}" for letter in LETTERS)) if x not in names)
        names.append(next(free, name))
    if len(set(names)) < len(names):
        raise UsageError(f"--frameworks: {names[-1]} is named more than {len(LETTERS) + 1} times")
    return names


def words(text: str, option: str, choices: Sequence[str]) -> list[str]:
    """A comma list of known words. Raises UsageError."""
    chosen = text.split(",")
    for word in chosen:
        if word not in choices:
            raise UsageError(f"{option} {word}: there are {', '.join(choices)}")
    return chosen


def setting(framework: Framework, threads: int, heap: str, division: str) -> tuple[Setting, str]:
    """How it runs, and the division it belongs to: in `tuned` with the adapter's TUNED settings, heap among them."""
    if division == "default":
        return Setting(threads, heap), division
    knobs = dict(framework.tuned)
    return Setting(threads, knobs.pop("heap", heap), knobs), division


def threads(text: str) -> list[int]:
    """A comma list of numbers that this process has cores for. Raises UsageError."""
    from kernels.devices.cpu import cores

    try:
        counts = [int(word) for word in text.split(",")]
    except ValueError:
        raise UsageError(f"--threads {text}: a whole number, or several: 1,2") from None
    for count in counts:
        if not 1 <= count <= cores():
            raise UsageError(f"--threads {count}: this process may use 1 to {cores()} cores")
    return counts


def heaps(text: str) -> list[str]:
    """A comma list of malloc's policies. Raises UsageError."""
    return words(text, "--heap", tuple(POLICIES))


def say(quiet: bool, text: str) -> None:
    """Print a line of progress to stderr, unless `quiet`."""
    if not quiet:
        print(text, file=sys.stderr, flush=True)
