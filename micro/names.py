"""Kernel names of a GPU's cases, added to run files that lack them: `python -m micro.names run.jsonl`.

`python -m micro all` does not name kernels, since a profiler takes time and slows down later measurements."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from micro.command.line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code: 2 for a file that is no run file."""
    parser = argparse.ArgumentParser("python -m micro.names", description=__doc__, allow_abbrev=False)
    parser.add_argument("files", nargs="+", metavar="FILE", type=Path, help="run files of this machine")
    return guarded("micro.names", lambda: _named(parser.parse_args(argv).files))


def _named(files: Sequence[Path]) -> int:
    from kernels.errors import UsageError
    from micro.command import names
    from reports import store

    for path in files:
        try:
            run = store.read(path)
        except store.Unreadable as error:
            raise UsageError(str(error)) from None
        cases, named = names.unnamed(run), 0
        for note in names.collect(run) if cases else ():  # each is written at once, since an interrupt may come
            file = store.RunFile(path, run.environment, resume=True)
            file.append(note)
            file.close()
            named += len(note.data["names"])
        print(f"{path}: {named} of {len(cases)} cases have kernel names")
    return 0


if __name__ == "__main__":
    sys.exit(main())
