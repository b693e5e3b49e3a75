"""Names of the kernels that ran on a GPU, by case, from a profiler in a fresh worker after all timing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from kernels.devices import kind_of
from kernels.errors import SuiteError
from micro.planning.contest import PREPARE, Case, parse
from micro.worker.client import ask
from micro.worker.messages import Names
from micro.worker.process import Workers
from reports.record import Note, Run

MOST = 8  # cases of one profiler session, whose records and operands stay in memory until its end


def unnamed(run: Run) -> dict[str, Case]:
    """Return the cases, by name, that were timed on a GPU and whose kernels no note of the run names."""
    named = {name for note in run.notes if note.topic == "kernels" for name in note.data.get("names", {})}
    timed = (x for x in run.measured if x.seconds and kind_of(x.device).own_clock)
    cases = {result.name: parse(result.name) for result in timed if result.name not in named}
    return {name: case for name, case in cases.items() if not case.problem.on_host}


def collect(run: Run, workers: Callable[[], AbstractContextManager[Workers]] = Workers) -> Iterator[Note]:
    """Yield notes with kernel names for the unnamed cases, up to MOST at a time; none without a profiler.

    A CUPTI profiler slows all later launches of its process. So the workers are started for this and end with
    it."""
    in_run = unnamed(run)
    cases = list(in_run.values())
    with workers() as started:
        for first in range(0, len(cases), MOST):
            some = cases[first : first + MOST]
            for key in dict.fromkeys(started.key(case) for case in some):
                mine = [case for case in some if started.key(case) == key]
                try:
                    names = ask(started.get(key), Names(tuple(mine)), PREPARE)
                except SuiteError as error:
                    started.drop(key)
                    which = f"{mine[0].name} and {len(mine) - 1} more" if len(mine) > 1 else mine[0].name
                    print(f"kernel names of {which} cannot be determined: {error}", file=sys.stderr)
                    continue
                kernels = dict(zip(mine, names, strict=True))
                by_name = {name: list(kernels[case]) for name, case in in_run.items() if kernels.get(case)}
                if by_name:
                    yield Note("kernels", {"names": by_name})
