"""Error rates of the harness: false alarms, detection, intervals, bias, on kernels with known ratios."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kernels.errors import UsageError
from micro.command.line import guarded
from micro.contests.selftest import EXPLAINED, NAME
from micro.planning.options import Parser


def parser() -> argparse.ArgumentParser:
    """Return the parser of `python -m micro.selftest`."""
    options = Parser(f"python -m micro.{NAME}", description=__doc__, allow_abbrev=False)
    how = options.add_mutually_exclusive_group()
    how.add_argument(
        "--full", action="store_true", help="one hour: every path 20 times, more pairs, a busy process on every core"
    )
    how.add_argument(
        "--explain", action="store_true", help="explain what is promised, how it is tested, and its limits"
    )
    options.add_argument("-o", dest="output", metavar="FILE", type=Path, help="write the run file (JSON lines)")
    options.add_argument("--resume", action="store_true", help="continue the run in -o FILE, if it exists")
    options.add_argument("--json", metavar="FILE", help="write the figures as JSON (- for stdout)")
    options.add_argument("-q", dest="quiet", action="store_true", help="no progress")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code: 0 if every figure is as promised or not judged, else 1."""
    arguments = parser().parse_args(argv)
    return guarded(f"micro.{NAME}", lambda: _asked(arguments)())


def _asked(arguments: argparse.Namespace) -> Callable[[], int]:
    """Return the requested action, ready to run. Raises UsageError."""
    if arguments.explain:
        if arguments.output or arguments.json or arguments.resume:
            raise UsageError("--explain: measures nothing; leave out -o, --json and --resume")
        return _explain
    if arguments.resume and not arguments.output:
        raise UsageError("--resume: requires a run file, -o FILE")
    from micro.command.selftest import Options, run

    words = (arguments.full, arguments.output, arguments.json, arguments.quiet, arguments.resume)
    return partial(run, Options(*words))


def _explain() -> int:
    print(EXPLAINED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
