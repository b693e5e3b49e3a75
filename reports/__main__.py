"""The commands on run files: `python -m reports show FILE…`, `compare A B`, `export FILE --to FORMAT`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

from reports import documents, formats, store
from reports.parser import OneLineParser

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from reports.record import Run

    Commands = _SubParsersAction[OneLineParser]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code.

    2 where a file is no run file or cannot be written; 1 where the standard output cannot be written."""
    parser = OneLineParser("python -m reports", description="Print, compare and export run files.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    for add in (_add_show, _add_compare, _add_export):
        add(commands)
    arguments = parser.parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except store.Unreadable as error:
        print(f"reports {arguments.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:  # errors of reading and drawing are reported above
        print(f"reports {arguments.command}: stdout: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _add_show(commands: Commands) -> None:
    parser = commands.add_parser("show", help="print run files as their runs did", allow_abbrev=False)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    about = "every case with its command, and the report of each of two scripts"
    parser.add_argument("-v", dest="verbose", action="store_true", help=about)
    kinds = parser.add_mutually_exclusive_group()
    for kind in formats.documents():
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, help=f"as {kind}")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="draw pictures into this folder")
    parser.set_defaults(run=show, kind="text")


def show(arguments: argparse.Namespace) -> int:
    """Print run files, by default as text; return the exit code."""
    if arguments.verbose and arguments.kind != "text":
        print(
            f"reports show: -v: --{arguments.kind} always has every case with its command; leave -v out",
            file=sys.stderr,
        )
        return 2
    runs = [(path, store.read(path)) for path in arguments.files]
    for path, run in runs:
        if len(runs) > 1:
            print(path)
        drawn = _draw(run, arguments.figures, path.stem if len(runs) > 1 else "") if arguments.figures else []
        formats.write(arguments.kind, run, _stdout(arguments.kind), verbose=arguments.verbose)
        for picture in drawn:
            print(f"picture: {picture}", file=sys.stdout if arguments.kind == "text" else sys.stderr)
    return 0


def _draw(run: Run, folder: Path, stem: str) -> list[Path]:
    from reports import figures

    try:
        return figures.draw(run, folder, stem)
    except OSError as error:
        raise store.Unreadable(f"--figures {folder}: {error.strerror}; name a folder") from None


def _add_compare(commands: Commands) -> None:
    parser = commands.add_parser("compare", help="compare two runs: environments, then times", allow_abbrev=False)
    parser.add_argument("files", nargs=2, type=Path, metavar="FILE")
    parser.add_argument(
        "--margin", type=share, default=0.01, metavar="SHARE", help="smallest difference that counts (1%%)"
    )
    parser.add_argument(
        "--gate", type=share, metavar="SHARE", help="exit 1 if the second is certainly slower, by SHARE or more"
    )
    parser.set_defaults(run=compare)


def compare(arguments: argparse.Namespace) -> int:
    """Print the second run against the first; return 1 if `--gate` rejects it, 2 if no case has a verdict."""
    from reports.compare import runs

    first, second = map(store.read, arguments.files)
    both = runs(first, second, arguments.margin)
    formats.write("text", both, sys.stdout)
    if arguments.gate is not None and all(c.verdict == "not comparable" for c in both.comparisons):
        print("reports compare: --gate: no case has a verdict; use python -m micro.ab", file=sys.stderr)
        return 2
    slower = [c for c in both.comparisons if c.verdict == "slower" and c.ratio is not None]
    return int(arguments.gate is not None and any((c.ratio or 0) >= 1 + arguments.gate for c in slower))


def share(text: str) -> float:
    """Parse `5%` or `0.05`. Raises ValueError."""
    value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < value < 1:
        raise ValueError(text)
    return value


def _add_export(commands: Commands) -> None:
    parser = commands.add_parser("export", help="write a run file in another program's format", allow_abbrev=False)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--to", dest="kind", required=True, choices=formats.kinds(), help="the format")
    parser.add_argument(
        "-o", dest="output", type=Path, default=Path("-"), metavar="OUT", help="output file (- is stdout)"
    )
    parser.set_defaults(run=export)


def export(arguments: argparse.Namespace) -> int:
    """Write the run in the format of `--to`; return the exit code."""
    run, output = store.read(arguments.file), arguments.output
    for line in run.damaged:
        print(f"reports export: {line}", file=sys.stderr)
    if output == Path("-"):
        formats.write(arguments.kind, run, _stdout(arguments.kind))
        return 0
    try:
        if reason := _not_there(output, arguments.kind, arguments.file):
            print(f"reports export: -o {output}: {reason}", file=sys.stderr)
            return 2
        with ExitStack() as stack:
            stream = documents.opened(output, stack)
            formats.write(arguments.kind, run, stream)
            documents.finish(stream)
    except OSError as error:
        print(f"reports export: -o {output}: {error.strerror}; name a file in an existing folder", file=sys.stderr)
        return 2
    return 0


def _not_there(output: Path, kind: str, source: Path) -> str | None:
    """Return why an existing output file must not be replaced, or None if it may be."""
    if output.exists() and output.samefile(source):
        return "is the run file itself; name another file"
    return documents.refused(output, formats.endings(kind))


def _stdout(kind: str) -> IO[str]:
    """Return standard output, in UTF-8 for formats that programs read."""
    if kind != "text" and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    return sys.stdout


if __name__ == "__main__":
    sys.exit(main())
