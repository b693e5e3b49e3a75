"""Benchmarks of whole networks in real frameworks: prove that they do equal work, then time them."""

import sys
from pathlib import Path

if __name__ == "macro" and sys.argv[:1] == ["-m"]:
    # `python -m macro` puts the current folder first; a user's kernels.py or reports/ there would hide the suite's.
    sys.path.insert(0, str(Path(__file__).parents[1]))
