"""How right are predictions of what a change saves? Some thirty pairs of a step and a change, each predicted and then
measured, by nine commands whose run files stay: what is stopped or killed goes on.

A third of them should change nothing. Processes of one step differ, at times by more than a change brings, so each is
started eight times; batches are small, so that the time goes into processes and not into steps."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from micro.command.figure import Figure
from reports import prediction
from reports.record import Prediction, Run
from tests.soak import calibration, kept
from tests.soak.calibration import Calibration

SIZES = ("batch", "threads", "isa")
MINUTES = 11  # about what a command takes
EACH = ("--apart", "--runs", "8", "--budget", "7m", "-q")
# Where small pages lie makes processes of one step differ: of products, whose heap is not what changes, in huge ones.
HUGE = "--heap keep --set GLIBC_TUNABLES=glibc.malloc.hugetlb=1"
COMMANDS = {
    "fcn-r-pytorch": "fcn-r pytorch mkl-dispatch openblas-shim blis-shim threads=2 weights-transposed fused-optimizer "
    f"foreach-optimizer --batch 256 {HUGE}",
    "fcn-s-pytorch": f"fcn-s pytorch mkl-dispatch update-in-wgrad input-gradient {HUGE}",
    "fcn-s-optimizers": f"fcn-s pytorch foreach-optimizer fused-optimizer {HUGE}",
    "fcn-s-pytorch-heap": "fcn-s pytorch heap-keep heap-jemalloc huge-pages",
    "alexnet-s-pytorch": "alexnet-s pytorch heap-keep huge-pages channels-last update-in-wgrad fused-optimizer",
    "alexnet-r-pytorch": "alexnet-r pytorch channels-last onednn-off openblas-shim weights-transposed "
    f"foreach-optimizer --batch 256 {HUGE}",
    "fcn-r-numpy": "fcn-r numpy isa=Haswell threads=2 heap-keep heap-tcmalloc --batch 256",
    "fcn-s-jax": "fcn-s jax heap-jemalloc huge-pages donation-off",
    "fcn-s-tensorflow": "fcn-s tensorflow-graph heap-keep heap-jemalloc huge-pages",
}


def figures() -> Iterator[Figure]:
    """Yield each pair as soon as it is known, then what they say together; a command that fails costs its pairs."""
    commands = {_file(name): ["whatif", *COMMANDS[name].split(), *EACH] for name in COMMANDS}
    yield kept.forecast("commands of pairs of step and change", commands, 60 * MINUTES)
    every: list[Prediction] = []
    for path, words in commands.items():
        try:
            run = kept.run(words, path, resumed=True, complete=partial(_complete, words))
        except kept.Failed as failed:
            yield Figure(path.stem, str(failed), "to be measured", False)
            continue
        for pair in run.predictions:
            yield Figure(f"{path.stem}, {pair.change}", _line(pair), "", True)
        every += run.predictions
    yield from together(every)


def _complete(words: Sequence[str], run: Run) -> bool:
    """Return whether a command predicted all its changes and its turns ended, though some could not be timed."""
    changes = itertools.takewhile(lambda word: not word.startswith("--"), words[3:])
    return bool(run.contests) and {*changes} <= {x.change for x in run.predictions}


def _file(name: str) -> Path:
    return kept.folder("soak-predictions") / f"{name}.jsonl"


def _line(pair: Prediction) -> str:
    """Format the predicted and the measured share of the step, and the verdict or why there is none."""
    ends = [calibration.share(pair, of) for of in (pair.predicted, pair.measured)]
    verdict = prediction.word(pair)
    return (
        f"predicted {ends[0]} %, measured {ends[1]} % of a step: {pair.reason or 'none' if verdict == '–' else verdict}"
    )


def together(pairs: Sequence[Prediction]) -> Iterator[Figure]:
    """Yield what is promised of all pairs."""
    counts = calibration.of(pairs)
    if counts is None:
        yield Figure("pairs of step and change", "none was measured", "some", False)
        return
    yield from _of_all(counts)
    yield from _of_large(counts)
    yield from _of_kinds(pairs)


def _of_all(counts: Calibration) -> Iterator[Figure]:
    inside, resolution = counts.inside / max(1, counts.predicted), counts.resolution
    yield Figure("pairs", f"{counts.measured}, {counts.predicted} predicted", "at least 30", counts.measured >= 30)
    yield Figure("resolution", f"{100 * resolution:.1f} % of a step, median", "at most 2 %", resolution <= 0.02)
    yield Figure("90 % intervals", f"hold in {counts.inside} of {counts.predicted}", "at least 80 %", inside >= 0.8)
    yield Figure("changes of nothing", f"{counts.null}", "at least 10", counts.null >= 10)
    yield Figure("… that were predicted to be one", f"{counts.alarms}", "at most 1", counts.alarms <= 1)


def _of_kinds(pairs: Sequence[Prediction]) -> Iterator[Figure]:
    """Yield that no change stands for many."""
    kinds = Counter(x.change.partition("=")[0] for x in pairs if x.measured)
    (kind, most), *_ = kinds.most_common(1)
    yield Figure("pairs of one change", f"{most} of {kind}", "at most 5", most <= 5)
    size = sum(calibration.is_large(x) for x in pairs if x.change.partition("=")[0] in SIZES)
    words = f"{calibration.LARGE:.0%} or more, of {', '.join(SIZES)}"
    yield Figure(f"pairs of {words}", f"{size}", "at most 3", size <= 3)


def _of_large(counts: Calibration) -> Iterator[Figure]:
    large, predicted, of_change = counts.large, counts.told, f"of {calibration.LARGE:.0%} or more"
    yield Figure(
        f"pairs {of_change}", f"{large}, {counts.kinds} kinds", "12, 8 kinds", large >= 12 and counts.kinds >= 8
    )
    yield Figure("… not predictable", f"{large - predicted}", "at most a fourth", 4 * (large - predicted) <= large)
    if not predicted:
        return
    yield Figure("… sign", f"right in {counts.right} of {predicted}", "in all but one", counts.right >= predicted - 1)
    yield Figure("… off by", f"{counts.error:.0%} of the change, median", "at most 15 %", counts.error <= 0.15)
    confirmed = counts.verdicts["confirmed"]
    yield Figure("… confirmed", f"{confirmed} of {predicted}", "at least 60 %", confirmed >= 0.6 * predicted)
    yield Figure("… half-width", f"{counts.half:.0%} of the change, median", "at most 30 %", counts.half <= 0.3)
