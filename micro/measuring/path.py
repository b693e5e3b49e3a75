"""The path of a comparison, how it was timed: key of the self-test's spread between runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernels.catalog import find
from micro.measuring.rounds import Goal, Measurement, one_look
from micro.planning.contest import Case
from micro.worker.process import Workers
from reports.next_run import FIXED, LOCKSTEP, ONE_LOOK, PYTHON, THREADS


def path(cases: Sequence[Case], measurement: Measurement, goal: Goal, pair: tuple[int, int]) -> tuple[str, ...]:
    """Return the clocks of a pair of measured cases, then the other properties of its timing.

    `pair`: columns of the measurement."""
    return tuple(dict.fromkeys(_words(cases, measurement, goal, pair)))


def _words(cases: Sequence[Case], m: Measurement, goal: Goal, pair: tuple[int, int]) -> Iterator[str]:
    yield from (m.clocks[i] for i in pair)
    if one_look(goal, m.opened):
        yield ONE_LOOK
    places = m.look.places[:, list(pair)]
    if len(places) > 1 and (places == places[0]).all():
        yield FIXED
    if any(find(cases[i].problem.op, cases[i].variant).python for i in pair):
        yield PYTHON
    if any(case.setting.threads > 1 for case in cases):
        yield THREADS
    if len({Workers.key(case) for case in cases}) > 1:
        yield LOCKSTEP
