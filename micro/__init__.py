"""Measurements: from a command line, or a call from Python, to records.

A measurement has eight steps, each in its folder:

1. The words of a command become options, a benchmark's default question among them: `planning` (options).
2. The options become problems, cases and contests: `planning` (request, axes), and `contests` for a benchmark with many
   questions; shapes of networks come as data from `shapes`.
3. A command opens its run file, its outputs and its workers: `command` (session, outputs, environment).
4. Each case is prepared, launched and checked against float64 in a guarded process: `measuring` (checks), `worker`
   (process, host, kernels, check).
5. The cases that passed are laid out, and the launches of a sample counted: `worker` (contest, layout, calibration).
6. Rounds are taken until the ratio is known: `measuring` (rounds, workers), `worker` (contest, visits, loop.c).
7. Judgments, ceilings and warnings become a contest's record in the run file: `measuring` (results, ceilings).
8. Sentences on the records are made: `findings` for most questions, `answers` for ten; tables, pictures and documents:
   the folder `reports`.

A file of this folder is a command that a person runs, a folder is machinery. `arms` takes step 4 to 6 in two checkouts
for `micro.ab`.

From Python: `run = micro.measure(micro.plan("gemm", m=[64, 128], variant="openblas,numpy", budget="5s"))`.
"""

import sys
from pathlib import Path

if __name__ == "micro" and sys.argv[:1] == ["-m"]:
    # `python -m micro.gemm` puts the current folder first, where a user's kernels.py or reports/ are not the suite's.
    sys.path.insert(0, str(Path(__file__).parents[1]))

from micro.command.api import measure, plan, workers

__all__ = ["measure", "plan", "workers"]
