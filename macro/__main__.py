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
    """Return the first line of each command's docstring, by the command's name."""
    by_name = {}
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        if path.stem == SHARED:
            continue
        first = path.read_text("utf-8").partition("\n")[0]
        by_name[path.stem] = first.strip('"')
    return by_name


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    by_name = commands()
    if not words or words[0] in ("-h", "--help"):
        print("usage: python -m macro COMMAND …; python -m macro COMMAND --help lists a command's options\n")
        for name, about in by_name.items():
            print(f"python -m macro {name}: {about}")
        return 0
    if words[0] not in by_name:
        print(f"macro: no command {words[0]}; choose from {', '.join(by_name)}", file=sys.stderr)
        return 2
    return guarded(f"macro {words[0]}", lambda: _ran(words[0], words[1:]))


def _ran(command: str, words: Sequence[str]) -> int:
    """Run a command; return its exit code, or print a line and return 1 if an output cannot be written."""
    try:
        code = int(importlib.import_module(f"{__package__}.{command}").main(words))
        print(end="", flush=True)
        return code
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"macro {command}: {where}{error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discards buffered output
        return 1


if __name__ == "__main__":
    sys.exit(main())
