"""Are the element-wise kernels as fast as promised (micro/contests/soak.py)? Each promise is a contest in the suite's
own rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernels.devices import open_device
from kernels.problem import Problem
from micro.command.figure import Figure
from micro.contests import soak
from micro.contests.soak import Promise
from micro.measuring.canary_history import History
from micro.measuring.checks import Checks
from micro.measuring.runner import Runner
from micro.planning.contest import Budget, Contest
from micro.worker.process import Workers
from reports import units
from reports.record import Comparison

SECONDS = 4.0  # of a contest


def figures() -> Iterator[Figure]:
    """A promise that the whole interval misses is not held."""
    with Workers() as workers:
        for promise in (*soak.streams(), *soak.transposes(), *soak.softmax()):
            yield judged(promise, measured(workers, promise))


def measured(workers: Workers, promise: Promise) -> list[tuple[str, Comparison]]:
    """Each rival's name, and its time over ours."""
    cases = (promise.ours, *promise.rivals)
    limits = {"cpu": open_device("cpu").limits()}
    contest = Contest(promise.what, "is it as promised?", "work: differs (operation)", cases)
    record = Runner(Checks(workers), limits, History("none")).run(contest, SECONDS, Budget(SECONDS))
    names = [case.variant.rpartition("/")[2] for case in promise.rivals]
    return list(zip(names, record.comparisons, strict=True))


def judged(promise: Promise, rivals: Sequence[tuple[str, Comparison]]) -> Figure:
    """The rate of ours over that of the best rival, and whether it may be what was promised."""
    promised = f"{promise.share:g}"
    compared = [(name, x) for name, x in rivals if x.ratio and x.low and x.high]
    if not compared:
        return Figure(promise.what, f"nothing could be measured: {rivals[0][1].reason}", promised, False)
    name, best = min(compared, key=lambda x: x[1].ratio or 0.0)
    assert best.ratio and best.low and best.high
    rate, low, high = (promise.bytes_of_both * x for x in (best.ratio, best.low, best.high))
    several = f"the best of {len(compared)}, {name}"
    against = several if len(rivals) > 1 else f"a {_operation(promise.rivals[0].problem)}"
    text = f"{units.ratio(rate, low, high)} of the rate of {against}"
    return Figure(promise.what, text, promised, high >= promise.share)


def _operation(problem: Problem) -> str:
    return f"{getattr(problem, 'kind', problem.op)} of {units.binary(problem.footprint)}"
