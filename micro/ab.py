"""Two checkouts or two environments against each other, in fresh processes that take turns.

`python -m micro.ab --repo-a OLD --repo-b NEW -- micro.gemm --m 64:1024:*2 --variant openblas`
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kernels.errors import UsageError
from micro.command.line import Parser, guarded
from micro.planning.request import SHARE, TIME, number

OURS = {  # options of a benchmark that an arm does not obey
    "-h",
    "--help",
    "-o",
    "-q",
    "-v",
    "--device",
    "--budget",
    "--target",
    "--margin",
    "--until",
    "--list",
    "--why",
    "--profile",
    "--resume",
    "--keep-wrong",
    "--figures",
    "--json",
    "--csv",
    "--markdown",
    "--googlebench",
    "--pyperf",
}
ABOUT = "Two checkouts or environments against each other: arm a is the baseline, arm b the contender."


def parser() -> argparse.ArgumentParser:
    """Everything behind `--` is the command whose cases are measured."""
    made = Parser("python -m micro.ab", description=ABOUT, allow_abbrev=False)
    for arm in "ab":
        made.add_argument(f"--repo-{arm}", metavar="DIR", type=Path, help="checkout of this suite (this one)")
        made.add_argument(f"--python-{arm}", metavar="EXE", help="Python of its environment (this one)")
    made.add_argument("--processes", type=int, default=13, metavar="N", help="an arm (default 13)")
    made.add_argument(
        "--budget",
        default="120s",
        metavar="TIME",
        help="of measuring, for all cases (120s); longer where two rounds of each take longer",
    )
    made.add_argument("--margin", default="1%", metavar="SHARE", help="smallest difference that is one (1%%)")
    made.add_argument(
        "--gate", metavar="SHARE", help="exit 1 where b is slower for certain, and perhaps by so much or more"
    )
    made.add_argument("-o", dest="output", metavar="FILE", type=Path, help="write the run file, JSON lines")
    made.add_argument("--json", metavar="FILE", help="write json (- is stdout)")
    made.add_argument("-q", dest="quiet", action="store_true", help="no progress")
    made.add_argument("words", nargs="*", metavar="-- micro.BENCHMARK …", help="the command, as one types it")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 1 where the gate holds b back or a kernel failed."""
    arguments = parser().parse_args(argv)
    return guarded("micro.ab", lambda: _main(arguments))


def _main(arguments: argparse.Namespace) -> int:
    if not arguments.words or not arguments.words[0].startswith("micro."):
        raise UsageError("name the command to measure behind --, such as -- micro.gemm --m 64,128")
    for word in arguments.words[1:]:
        if word.partition("=")[0] in OURS:
            raise UsageError(
                f"{word.partition('=')[0]} behind --: only what says which cases; the rest stands before --"
            )
    if arguments.processes < 6:
        raise UsageError(f"--processes {arguments.processes}: six or more an arm, thirteen for a gate")
    for arm in "ab":
        repo = getattr(arguments, f"repo_{arm}")
        if repo is not None and not (repo / "micro" / "_arm.py").is_file():
            raise UsageError(f"--repo-{arm} {repo}: no checkout of this suite with micro/_arm.py in it")
    from micro.arms.pairs import run
    from micro.arms.results import Limits

    gate = number(arguments.gate, SHARE, "--gate", "5%") if arguments.gate is not None else None
    limits = Limits(
        arguments.processes,
        number(arguments.budget, TIME, "--budget", "120s"),
        number(arguments.margin, SHARE, "--margin", "1%"),
        gate,
    )
    return run(arguments, limits)


if __name__ == "__main__":
    sys.exit(main())
