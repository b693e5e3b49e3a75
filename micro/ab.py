"""Two checkouts or two environments against each other, in fresh processes that take turns.

`python -m micro.ab --repo-a OLD --repo-b NEW -- micro.gemm --m 64:1024:*2 --variant openblas`
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import suite
from kernels.errors import UsageError
from micro.command.line import guarded
from micro.planning.options import EXPORTS, Parser, add_documents, outputs_of
from micro.planning.request import SHARE, TIME, number

if TYPE_CHECKING:
    from micro.arms.pairs import Duel

OURS = {  # options of a benchmark that an arm ignores
    *("-h", "--help", "-o", "-q", "-v", "--device", "--budget", "--target", "--margin", "--until", "--list", "--why"),
    "--gate",
    *("--replicate", "--profile", "--resume", "--keep-wrong", "--figures"),
    *(f"--{kind}" for kind in EXPORTS),
}
ABOUT = "Compare two checkouts or environments: arm a is the baseline, arm b the contender."


def parser() -> argparse.ArgumentParser:
    """Return the argument parser; the words after `--` are the command whose cases are measured."""
    options = Parser("python -m micro.ab", description=ABOUT, allow_abbrev=False)
    for arm in "ab":
        options.add_argument(f"--repo-{arm}", metavar="DIR", type=Path, help="checkout of this suite (default: this)")
        options.add_argument(f"--python-{arm}", metavar="EXE", help="Python of its environment (default: this)")
    options.add_argument("--processes", type=int, default=13, metavar="N", help="processes per arm (default 13)")
    options.add_argument(
        "--budget",
        default="120s",
        metavar="TIME",
        help="measuring time of all cases (default 120s); exceeded if two rounds of each case need more",
    )
    options.add_argument(
        "--margin", default="1%", metavar="SHARE", help="ratios within 1 ± this are the same (default 1%%)"
    )
    options.add_argument(
        "--gate", metavar="SHARE", help="exit 1 if b is significantly slower and its interval reaches SHARE"
    )
    options.add_argument("-o", dest="output", metavar="FILE", type=Path, help="write the run file (JSON lines)")
    add_documents(options)
    options.add_argument("-q", dest="quiet", action="store_true", help="no progress")
    options.add_argument("words", nargs="*", metavar="-- micro.BENCHMARK …", help="the benchmark's command line")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code: 1 if b fails the gate or a kernel failed."""
    values = vars(parser().parse_args(argv))

    def body() -> int:
        from micro.arms.pairs import run

        return run(unpacked(values))

    return guarded("micro.ab", body)


def unpacked(values: Mapping[str, Any]) -> Duel:
    """Return the command, both arms, limits and outputs from the parser's values. Raises UsageError."""
    from micro.arms.pairs import Duel, Place, module_in
    from micro.arms.results import Limits

    name, *words = values["words"] or [""]
    if name and (suite.FOLDER / "micro" / f"{name}.py").is_file():
        name = f"micro.{name}"  # a name without `micro.`, as the installed command takes it
    if not name.startswith("micro."):
        raise UsageError("name the command to measure after --, e.g. -- micro.gemm --m 64,128")
    for option in (word.partition("=")[0] for word in words):
        if option in OURS:
            raise UsageError(f"{option} after --: only options that select cases are allowed there; move it before --")
    if values["processes"] < 6:
        raise UsageError(f"--processes {values['processes']}: must be 6 or more per arm (13 for a gate)")
    places = {}
    for arm in "ab":
        python, repo = values[f"python_{arm}"] or Place.python, values[f"repo_{arm}"] or Place.repo
        if module_in(repo) is None:
            raise UsageError(f"--repo-{arm} {repo}: neither a checkout of this suite nor an environment with kernelgap")
        places[arm] = Place(python, repo)
    gate = number(values["gate"], SHARE, "--gate", "5%") if values["gate"] is not None else None
    limits = Limits(
        values["processes"],
        number(values["budget"], TIME, "--budget", "120s"),
        number(values["margin"], SHARE, "--margin", "1%"),
        gate,
    )
    return Duel((name, *words), places, limits, outputs_of(values))


if __name__ == "__main__":
    sys.exit(main())
