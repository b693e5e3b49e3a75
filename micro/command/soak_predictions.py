"""How right are predictions of what a change brings? Some thirty pairs of a step and a change, each predicted and
then made, by nine commands whose run files stay: what is stopped or killed goes on.

A third of them should change nothing. Processes of one step differ, at times by more than a change brings, so each is
started eight times; batches are small, so that the time goes into processes and not into steps."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from micro.command import soak_runs
from micro.command.figure import Figure
from reports import calibration, prediction
from reports.calibration import Calibration
from reports.record import Prediction, Run

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
    """Each pair as soon as it is known; then what they say together."""
    left = sum(soak_runs.kept(_words(name), _file(name)) is None for name in COMMANDS)
    text = f"{left} of {len(COMMANDS)} commands, about {MINUTES * left} min; run files stay in {folder()}"
    yield Figure("pairs of step and change", text, "", True)
    every: list[Prediction] = []
    for name in COMMANDS:
        words, whole = _words(name), _file(name)
        try:
            complete = partial(_complete, COMMANDS[name].split())
            found = soak_runs.kept(words, whole) or soak_runs.measured(words, whole, resumed=True, complete=complete)
        except soak_runs.Failed as failed:
            yield Figure(name, str(failed), "to be measured", False)
            continue
        for one in found.predictions:
            yield Figure(f"{name}, {one.change}", _said(one), "", True)
        every += found.predictions
    yield from together(every)


def _complete(words: Sequence[str], run: Run) -> bool:
    """Whether all changes of a command were told of and its turns ended, though some could not be timed."""
    asked = itertools.takewhile(lambda word: not word.startswith("--"), words[2:])
    return bool(run.contests) and {*asked} <= {one.change for one in run.predictions}


def folder() -> Path:
    """Where run files stay; who empties it begins anew."""
    return soak_runs.folder("soak-predictions")


def _file(name: str) -> Path:
    return folder() / f"{name}.jsonl"


def _words(name: str) -> list[str]:
    return ["whatif", *COMMANDS[name].split(), *EACH]


def _said(one: Prediction) -> str:
    """Predicted, measured, in per cent of the step, and the verdict or why there is none."""
    ends = [calibration.share(one, of) for of in (one.predicted, one.measured)]
    told = prediction.word(one)
    return f"predicted {ends[0]} %, measured {ends[1]} % of a step: {one.reason or 'none' if told == '–' else told}"


def together(made: Sequence[Prediction]) -> Iterator[Figure]:
    """What is promised of all of them."""
    found = calibration.of(made)
    if found is None:
        yield Figure("pairs of step and change", "none was measured", "some", False)
        return
    yield from _of_all(found)
    yield from _of_large(found)
    yield from _of_kinds(made)


def _of_all(found: Calibration) -> Iterator[Figure]:
    inside, resolution = found.inside / max(1, found.predicted), found.resolution
    yield Figure("pairs", f"{found.measured}, {found.predicted} predicted", "at least 30", found.measured >= 30)
    yield Figure("resolution", f"{100 * resolution:.1f} % of a step, median", "at most 2 %", resolution <= 0.02)
    yield Figure("90 % intervals", f"hold in {found.inside} of {found.predicted}", "at least 80 %", inside >= 0.8)
    yield Figure("changes of nothing", f"{found.null}", "at least 10", found.null >= 10)
    yield Figure("… that were predicted to be one", f"{found.alarms}", "at most 1", found.alarms <= 1)


def _of_kinds(made: Sequence[Prediction]) -> Iterator[Figure]:
    """That no change stands for many."""
    kinds = Counter(x.change.partition("=")[0] for x in made if x.measured)
    (kind, most), *_ = kinds.most_common(1)
    yield Figure("pairs of one change", f"{most} of {kind}", "at most 5", most <= 5)
    size = sum(calibration.is_large(x) for x in made if x.change.partition("=")[0] in SIZES)
    words = f"{calibration.LARGE:.0%} or more, of {', '.join(SIZES)}"
    yield Figure(f"pairs of {words}", f"{size}", "at most 3", size <= 3)


def _of_large(found: Calibration) -> Iterator[Figure]:
    large, told, of_change = found.large, found.told, f"of {calibration.LARGE:.0%} or more"
    yield Figure(f"pairs {of_change}", f"{large}, {found.kinds} kinds", "12, 8 kinds", large >= 12 and found.kinds >= 8)
    yield Figure("… not predictable", f"{large - told}", "at most a fourth", 4 * (large - told) <= large)
    if not told:
        return
    yield Figure("… sign", f"right in {found.right} of {told}", "in all but one", found.right >= told - 1)
    yield Figure("… off by", f"{found.error:.0%} of the change, median", "at most 15 %", found.error <= 0.15)
    confirmed = found.verdicts["confirmed"]
    yield Figure("… confirmed", f"{confirmed} of {told}", "at least 60 %", confirmed >= 0.6 * told)
    yield Figure("… half-width", f"{found.half:.0%} of the change, median", "at most 30 %", found.half <= 0.3)
