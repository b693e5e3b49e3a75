"""The benchmarks' useful lines that one part of a session measures: `python -m tests.gpu.session.rows PART OPTIONS`.

The options are those of `python -m micro all`, of whose lines a part has those of some ranks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from micro import __main__ as every
from micro.command.line import guarded

RANKS = {1: range(1, 80), 2: range(80, 230), 4: range(230, sys.maxsize)}  # by part


def main(argv: Sequence[str]) -> int:
    """Measure the lines of a part; return the exit code."""
    part, *words = argv
    options = every.parser().parse_args(["all", *words])
    return guarded("tests.gpu.session", lambda: every.measure(options, RANKS[int(part)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
