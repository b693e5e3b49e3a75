"""Whole networks in real frameworks: equal work first, then time."""

import sys
from pathlib import Path

if __name__ == "macro" and sys.argv[:1] == ["-m"]:
    # `python -m macro` puts the current folder first, where a user's kernels.py or reports/ are not the suite's.
    sys.path.insert(0, str(Path(__file__).parents[1]))
