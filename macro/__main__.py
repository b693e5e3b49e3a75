"""`python -m macro`: lists its commands; each explains itself with --help."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from micro.command.line import guarded

SHARED = "command"


def commands() -> dict[str, str]:
    """The commands by name, each with its docstring's first line: the files of this folder but what they share."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        if path.stem == SHARED:
            continue
        first = path.read_text("utf-8").partition("\n")[0]
        found[path.stem] = first.strip('"')
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of the command."""
    words = list(sys.argv[1:] if argv is None else argv)
    known = commands()
    if not words or words[0] in ("-h", "--help"):
        for name, about in known.items():
            print(f"python -m macro {name}: {about}")
        return 0
    if words[0] not in known:
        print(f"macro: no command {words[0]}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    return guarded(f"macro {words[0]}", lambda: _ran(words[0], words[1:]))


def _ran(command: str, words: Sequence[str]) -> int:
    """Its exit code; 1, and a line, where a file or the standard output cannot be written."""
    try:
        code = int(importlib.import_module(f"macro.{command}").main(words))
        print(end="", flush=True)
        return code
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"macro {command}: {where}{error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered goes nowhere
        return 1


if __name__ == "__main__":
    sys.exit(main())
