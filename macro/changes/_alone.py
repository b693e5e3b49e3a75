"""Measurement of a step's kernels in isolation, unchanged and changed: the ratio of their times."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.devices.cpu import memory
from kernels.errors import Unavailable
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from kernels.ops.pooling.problem import Pooling
from kernels.ops.recurrent.problem import Recurrent
from kernels.ops.update.problem import Update
from kernels.problem import Problem
from macro.changes.base import CONFIDENCE, ERRORS, Ratio

if TYPE_CHECKING:
    from micro.measuring.checks import Checks
    from reports.record import Comparison, Result, Run

_WORKERS: ContextVar[Checks | None] = ContextVar("workers", default=None)
NARROWER = ERRORS / 1.960  # width of a 90 % interval over that of a 95 % interval
SHARES = 2 / 3, 1 / 3  # of the time, for a kernel's first and second measurement
WIDE = 0.1  # a ratio with an interval wider than ± this is measured again
USELESS = 1.0  # a ratio with an interval wider than ± this share of it is dropped
LITTLE = 4 << 30  # bytes of free memory below which workers are ended between runs
LEAST = 256  # smallest m, n or k of a reduced product, so that it stays large
IMAGES = 16  # smallest number of images; with fewer, libraries choose other algorithms
# Sizes that `smaller` may reduce, and their lower bound
SIZES: Mapping[type[Problem], tuple[tuple[str, ...], int]] = {
    Gemm: (("m", "n", "k"), LEAST),
    Update: (("m", "n"), LEAST),
    Conv: (("n",), IMAGES),
    Pooling: (("images",), IMAGES),
    Recurrent: ((), 0),
}
BENCHMARKS: Mapping[type[Problem], str] = {
    Gemm: "gemm",
    Update: "update",
    Conv: "conv",
    Pooling: "elementwise",
    Recurrent: "lstm",
}
SINGLE = (Pooling, Recurrent)  # whose benchmarks read no problems from a file


class TooFewRounds(Unavailable):
    """Error: an isolated kernel had too few rounds, so its ratio is unknown."""

    def __init__(self) -> None:
        super().__init__("a kernel by itself had too few rounds: use a longer --budget")


def measured(benchmark: str, options: Mapping[str, Any], seconds: float) -> Ratio:
    """Measure the ratio of a benchmark's second case to its first, in two tries. Raises SuiteError."""
    for share in SHARES:
        ran = run(benchmark, options, share * seconds)
        ratio = _ratio(ran.results, ran.comparisons)
        if ratio is not None and _useful(ratio):
            return ratio
    raise TooFewRounds


def known(xs: Mapping[Problem, str], how: Mapping[str, Any], seconds: float) -> dict[Problem, Ratio]:
    """Measure problems (with their --cold), wide ratios twice; return useful ratios. Raises SuiteError."""
    best: dict[Problem, Ratio] = {}
    for share in SHARES:
        left = {x: xs[x] for x in xs if x not in best or best[x].high - best[x].low > 2 * WIDE}
        for x, ratio in ratios(left, how, share * seconds).items() if left else ():
            if ratio is not None and (x not in best or ratio.high - ratio.low < best[x].high - best[x].low):
                best[x] = ratio
    return {x: ratio for x, ratio in best.items() if _useful(ratio)}


def _useful(ratio: Ratio) -> bool:
    return ratio.high - ratio.low <= 2 * USELESS * ratio.value


def ratios(xs: Mapping[Problem, str], how: Mapping[str, Any], seconds: float) -> dict[Problem, Ratio | None]:
    """Measure the ratios of problems of the same type; None for a problem with too few rounds.

    Problems with the same --cold share a run, so that kernels start once; those of SINGLE have a run each.
    Raises SuiteError.
    """
    (kind,), flops = {type(x) for x in xs}, sum(x.flops for x in xs)
    if kind in SINGLE:
        each_has = {x: seconds * x.bytes / sum(y.bytes for y in xs) for x in xs}
        runs = {x: run(BENCHMARKS[kind], {**asdict(x), **how, "cold": cold}, each_has[x]) for x, cold in xs.items()}
        return {x: _ratio(ran.results, ran.comparisons) for x, ran in runs.items()}
    by_problem: dict[Problem, Ratio | None] = {}
    for cold in dict.fromkeys(xs.values()):
        alike = [x for x in xs if xs[x] == cold]
        by_problem |= _of_one_run(alike, {**how, "cold": cold}, seconds * sum(x.flops for x in alike) / flops)
    return by_problem


def _of_one_run(xs: Sequence[Problem], how: Mapping[str, Any], seconds: float) -> dict[Problem, Ratio | None]:
    kind = type(xs[0])
    with tempfile.TemporaryDirectory(prefix="kernelgap-alone-") as folder:
        path = Path(folder, "problems.json")
        path.write_text(json.dumps({"source": "a step", "problems": [asdict(x) for x in xs]}), "utf-8")
        ran = run(BENCHMARKS[kind], {"shapes": path, **how}, seconds)
    base = {
        (result.contest, result.name): kind(**result.problem) for result in ran.results if result.role == "measured"
    }
    of = {result.contest: base[result.contest, result.baseline] for result in ran.comparisons}
    return {
        x: _ratio(
            [result for result in ran.results if of.get(result.contest) == x],
            [comparison for comparison in ran.comparisons if of[comparison.contest] == x],
        )
        for x in xs
    }


@contextmanager
def workers() -> Iterator[None]:
    """Share micro's workers among all kernels measured inside the block: they start and check only once."""
    import micro

    with micro.workers(bounded=False) as shared:
        before = _WORKERS.set(shared)
        try:
            yield
        finally:
            _WORKERS.reset(before)


def run(benchmark: str, options: Mapping[str, Any], seconds: float) -> Run:
    """Run a benchmark of micro for about `seconds`, in shared workers if any. Raises SuiteError."""
    import micro

    shared = _WORKERS.get()
    if shared and memory() < LITTLE:  # a worker never returns memory
        shared.workers.end()
    return micro.measure(micro.plan(benchmark, **options, budget=f"{max(1.0, seconds):.1f}s"), shared)


def _ratio(results: Sequence[Result], comparisons: Sequence[Comparison]) -> Ratio | None:
    """Return the first comparison's ratio; None: too few rounds. Raises SuiteError if a case has no time."""
    assert CONFIDENCE == 0.9
    comparison = next((x for x in comparisons if x.ratio is not None), None)
    if comparison is None and all(x.seconds is not None for x in results if x.role == "measured"):
        return None  # it ran in too few rounds, or there was no time for it
    if comparison is None or comparison.ratio is None:
        raise unmeasured(results, comparisons)
    if comparison.low is None or comparison.high is None:
        return None
    return Ratio(
        comparison.ratio,
        *(comparison.ratio + (end - comparison.ratio) * NARROWER for end in (comparison.low, comparison.high)),
    )


def unmeasured(results: Iterable[Result], comparisons: Iterable[Comparison] = ()) -> Unavailable:
    """Return the error Unavailable with the first reason why there are no times."""
    reasons = [x.reason for x in results if x.reason] + [x.reason for x in comparisons if x.reason]
    return Unavailable(next(iter(reasons), "nothing could be measured"))


def smaller(x: Problem, flops: float, varied: str | None = None) -> Problem:
    """Halve the largest sizes of `x`, except axis `varied`, until it has at most `flops` or is minimal.

    A ratio of large kernels changes little with their sizes. Convolutions and poolings only lose images."""
    names, least = SIZES[type(x)]
    names = tuple(name for name in names if name != varied)
    while names and x.flops > flops:
        sizes = {name: size for name, size in asdict(x).items() if name in names}
        name = max(sizes, key=sizes.__getitem__)
        if sizes[name] < 2 * least:
            break
        x = replace(x, **{name: sizes[name] // 2})
    return x
