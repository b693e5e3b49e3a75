"""`python -m reports show FILE…`: what run files say."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reports import formats, store


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; 2 where a file is no run file."""
    parser = argparse.ArgumentParser(
        "python -m reports", description="What run files say.", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("show", help="print run files as the run itself did")
    show.add_argument("files", nargs="+", type=Path, metavar="FILE")
    show.add_argument("-v", dest="verbose", action="store_true", help="every case with its command")
    for kind in ("json", "csv", "markdown"):
        show.add_argument(f"--{kind}", action="store_true", help=f"as {kind}")
    arguments = parser.parse_args(argv)
    kind = next((k for k in ("json", "csv", "markdown") if getattr(arguments, k)), "text")
    try:
        runs = [(path, store.read(path)) for path in arguments.files]
    except store.Unreadable as error:
        print(f"reports show: {error}", file=sys.stderr)
        return 2
    for path, run in runs:
        if len(runs) > 1:
            print(path)
        formats.write(kind, run, sys.stdout, verbose=arguments.verbose)
    return 0


if __name__ == "__main__":
    sys.exit(main())
