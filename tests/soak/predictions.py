"""Predictions of what a change saves against what it saves: some thirty pairs of a step and a change.

Run files of the nine commands stay: what is stopped or killed goes on. A third of the changes should change nothing.
Processes of one step differ, at times by more than a change brings, so each is started eight times; batches are small,
so that the time goes into processes and not into steps.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from macro.predicting.script_step import TOPIC
from micro.command.figure import Promise
from reports import units
from reports.prediction import word
from reports.record import Expected, Prediction, Run
from tests.soak import kept

LARGE = 0.05  # of a step: a change that is worth a word
MINUTES = 11  # about what a command takes
EACH = ("--apart", "--runs", "8", "--budget", "7m", "-q")
# Where small pages lie makes processes of one step differ: of products, whose heap is not what changes, in huge ones.
HUGE = "--heap keep --set GLIBC_TUNABLES=glibc.malloc.hugetlb=1"
COMMANDS = {
    "fcn-r-pytorch": "fcn-r pytorch mkl-dispatch openblas-shim blis-shim threads=2 weights-transposed fused-optimizer "
    f"foreach-optimizer --batch 256 {HUGE}",
    "fcn-s-pytorch": f"fcn-s pytorch mkl-dispatch update-in-wgrad {HUGE}",
    "fcn-s-optimizers": f"fcn-s pytorch foreach-optimizer fused-optimizer {HUGE}",
    "fcn-s-pytorch-heap": "fcn-s pytorch heap-keep heap-jemalloc huge-pages",
    "alexnet-s-pytorch": "alexnet-s pytorch heap-keep huge-pages channels-last update-in-wgrad fused-optimizer",
    "alexnet-r-pytorch": "alexnet-r pytorch channels-last onednn-off openblas-shim weights-transposed "
    f"foreach-optimizer --batch 256 {HUGE}",
    "fcn-r-numpy": "fcn-r numpy isa=Haswell threads=2 heap-keep heap-tcmalloc --batch 256",
    "fcn-s-jax": "fcn-s jax heap-jemalloc huge-pages",
    "fcn-s-tensorflow": "fcn-s tensorflow-graph heap-keep heap-jemalloc huge-pages",
}


CASES = "attention averaged checkpoint decoded depthwise float64 item packed per_sample small_parameters table unfolded"
SCRIPTS = [f"tests/cases/scripts/{name}.py" for name in CASES.split()]
SCRIPTS += [f"docs/examples/{name}.py" for name in ("cnn", "lstm", "transformer", "mlp")]
THREADS = "torch.set_num_threads(1)"  # what they set, which a change of threads would not survive
OWN = ("--threads", "1", "heap-keep", "mkl-dispatch", "threads=2", "channels-last", "--apart", "-q")
AFTER_NET, AFTER_SCRIPT = 3, 4  # place of the first change among the words of a command
OWN_MINUTES = 3.4  # about what such a command takes


def figures() -> Iterator[Promise]:
    """Yield each pair as soon as it is known, then what they say together; a command that fails costs its pairs."""
    commands = {_file(name): ["whatif", *COMMANDS[name].split(), *EACH] for name in COMMANDS}
    yield from together((yield from _pairs(commands, MINUTES, AFTER_NET)))


def of_scripts() -> Iterator[Promise]:
    """Yield the pairs of users' scripts, one process of each, then what is promised of the large ones."""
    commands = {_file(f"own-{script.stem}"): ["whatif", str(script), *OWN] for script in map(_unset, SCRIPTS)}
    every = yield from _pairs(commands, OWN_MINUTES, AFTER_SCRIPT)
    large = [x for x in every if is_large(x) and x.predicted is not None]
    refuted = sum(word(x) == "refuted" for x in large)
    inside = sum(_holds(x, error=False) for x in large)
    wrong = sum(_center(x.predicted) * _center(x.measured) <= 0 for x in large)
    yield Promise("pairs of scripts, of 5% or more", str(len(large)), "12 or more", len(large) >= 12)
    yield Promise("… refuted", str(refuted), "0", refuted == 0)
    yield Promise("… wrong signs", str(wrong), "0", wrong == 0)
    yield Promise("… inside their 90 % intervals", str(inside), "80% or more", inside >= 0.8 * len(large))


def _unset(name: str) -> Path:
    """Write a script that does not set its threads; return its path."""
    script = kept.folder("soak-predictions") / Path(name).name
    script.write_text((kept.ROOT / name).read_text("utf-8").replace(THREADS, "pass"), "utf-8")
    return script


def _pairs(
    commands: Mapping[Path, Sequence[str]], minutes: float, first: int
) -> Generator[Promise, None, list[Prediction]]:
    """Yield each pair of the commands, kept or measured now, about `minutes` each; return them all.

    `first`: the place of the first change among a command's words."""
    yield kept.forecast("commands of pairs of step and change", commands, 60 * minutes)
    every: list[Prediction] = []
    for path, words in commands.items():
        try:
            run = kept.run(words, path, resumed=first == AFTER_NET, complete=partial(_complete, words[first:]))
        except kept.Failed as failed:
            yield Promise(path.stem, str(failed), "to be measured", False)
            continue
        for pair in run.predictions:
            yield Promise(f"{path.stem}, {pair.change}", _line(pair), "", True)
        every += run.predictions
    return every


def _complete(words: Sequence[str], run: Run) -> bool:
    """Return whether a command predicted all its changes and its turns ended, though some could not be timed."""
    changes = itertools.takewhile(lambda word: not word.startswith("--"), words)
    ended = bool(run.contests) or any(note.topic == TOPIC for note in run.notes)
    return ended and {*changes} <= {x.change for x in run.predictions}


def _file(name: str) -> Path:
    return kept.folder("soak-predictions") / f"{name}.jsonl"


def _line(pair: Prediction) -> str:
    """Format the predicted and the measured share of the step, and the verdict or why there is none."""
    ends = [share(pair, of) for of in (pair.predicted, pair.measured)]
    verdict = word(pair)
    return (
        f"predicted {ends[0]} %, measured {ends[1]} % of a step: {pair.reason or 'none' if verdict == '–' else verdict}"
    )


def together(pairs: Sequence[Prediction]) -> Iterator[Promise]:
    """Yield what is promised of all pairs."""
    counts = calibrated(pairs)
    if counts is None:
        yield Promise("pairs", "none was measured", "some", False)
        return
    for name, figure, least, most in PROMISES:
        value = figure(counts)
        yield Promise(name, f"{value:.3g}", f"{least:g} to {most:g}", least <= value <= most)


@dataclass(frozen=True)
class Calibration:
    """Counts of measured pairs."""

    measured: int
    predicted: int
    resolution: float  # median, in shares of the step
    inside: int  # of the predicted: intervals that hold the measured change
    near: int  # the same with the measurement's error
    large: int
    kinds: int  # of change, among the large ones
    foretold: int  # of the large ones
    right: int  # of those: signs
    verdicts: Counter[str]
    error: float  # median, in shares of the change
    half: float  # median half-width of the intervals, in shares of the change
    null: int  # changed nothing
    alarms: int  # of those: predicted to change something


PROMISES: tuple[tuple[str, Callable[[Calibration], float], float, float], ...] = (  # name, figure, least, most
    ("pairs", lambda of: of.measured, 30, math.inf),
    ("resolution, of a step", lambda of: of.resolution, 0, 0.02),
    ("90 % intervals that hold", lambda of: of.inside / max(1, of.predicted), 0.8, 1),
    ("changes of nothing", lambda of: of.null, 10, math.inf),
    ("… that were predicted to be one", lambda of: of.alarms, 0, 1),
    (f"pairs of {LARGE:.0%} or more", lambda of: of.large, 12, math.inf),
    ("… kinds of change", lambda of: of.kinds, 8, math.inf),
    ("… not predictable", lambda of: 1 - of.foretold / max(1, of.large), 0, 0.25),
    ("… wrong signs", lambda of: of.foretold - of.right, 0, 1),
    ("… median error, of the change", lambda of: of.error, 0, 0.15),
    ("… confirmed", lambda of: of.verdicts["confirmed"] / max(1, of.foretold), 0.6, 1),
    ("… median half-width, of the change", lambda of: of.half, 0, 0.3),
)


def calibrated(made: Sequence[Prediction]) -> Calibration | None:
    """Count the measured pairs, and those that changed the step by LARGE; None where nothing was measured."""
    measured = [x for x in made if x.measured is not None and x.resolution is not None]
    if not measured:
        return None
    both = [x for x in measured if x.predicted is not None]
    large = [x for x in measured if is_large(x)]
    foretold = [x for x in large if x.predicted is not None]
    null = [x for x in both if _is_null(x)]
    return Calibration(
        measured=len(measured),
        predicted=len(both),
        resolution=median((x.resolution or 0.0) / x.step for x in measured),
        inside=sum(_holds(x, error=False) for x in both),
        near=sum(_holds(x, error=True) for x in both),
        large=len(large),
        kinds=len({x.change.partition("=")[0] for x in large}),
        foretold=len(foretold),
        right=sum(_center(x.predicted) * _center(x.measured) > 0 for x in foretold),
        verdicts=Counter(word(x) for x in foretold),
        error=median(abs(_error(x)) for x in foretold) if foretold else 0.0,
        half=median(map(_half, foretold)) if foretold else 0.0,
        null=len(null),
        alarms=sum(abs(_center(x.predicted)) > (x.resolution or 0.0) for x in null),
    )


def sentences(made: Sequence[Prediction]) -> Iterator[str]:
    """Yield the counts in words."""
    counts = calibrated(made)
    if counts is None:
        return
    yield (
        f"{units.counted(counts.measured, 'pair')} of step and change measured, {counts.predicted} of them predicted; "
        f"two unchanged steps are alike to within {units.percent(100 * counts.resolution)} of the step (median)."
    )
    yield (
        f"What was measured lies inside the 90 % interval of its prediction in {counts.inside} of "
        f"{counts.predicted}; in {counts.near} once the measurement's own error is added."
    )
    if counts.foretold:
        counted = ", ".join(f"{counts.verdicts[verdict]} {verdict}" for verdict in sorted(counts.verdicts))
        error, half = units.percent(100 * counts.error), units.percent(100 * counts.half)
        yield (
            f"Of the {counts.large} that change the step by {units.percent(100 * LARGE)} or more, by {counts.kinds} "
            f"kinds of change, {counts.foretold} were predictable: sign right in {counts.right}; {counted}; median "
            f"error {error} of the change, half-width of their intervals {half} of it (median)."
        )
    changes = units.counted(counts.null, "change")
    yield (
        f"Of {changes} whose interval holds 0 and lies within ±{100 * LARGE:.0f} % of the step, {counts.alarms} had "
        "been predicted to change it by more than the resolution."
    )


def share(x: Prediction, of: Expected | None) -> str:
    """Format per cent of the unchanged step, with the interval."""
    if of is None:
        return "–"
    center, low, high = (100 * seconds / x.step for seconds in (of.seconds, of.low, of.high))
    return f"{center:+.1f} [{low:+.1f}, {high:+.1f}]"


def _is_null(x: Prediction) -> bool:
    """Return whether a change certainly left the step as it was."""
    most = LARGE * x.step
    return x.measured is not None and -most < x.measured.low <= 0 <= x.measured.high < most


def is_large(x: Prediction) -> bool:
    """Return whether a change moved the step by LARGE."""
    return x.measured is not None and abs(x.measured.seconds) >= LARGE * x.step


def _center(of: Expected | None) -> float:
    return 0.0 if of is None else of.seconds


def _half(x: Prediction) -> float:
    """Return half of the predicted interval, in shares of the measured change."""
    assert x.predicted is not None
    return (x.predicted.high - x.predicted.low) / 2 / abs(_center(x.measured))


def _error(x: Prediction) -> float:
    """Return the prediction's error in shares of the measured change."""
    return _center(x.predicted) / _center(x.measured) - 1


def _holds(x: Prediction, error: bool) -> bool:
    """Return whether the predicted interval holds the measured change, whose `error` is added or not."""
    assert x.predicted is not None and x.measured is not None
    over = x.measured.seconds > x.predicted.seconds
    half = x.predicted.high - x.predicted.seconds if over else x.predicted.seconds - x.predicted.low
    if error:  # for what was foreseen of it
        half = math.sqrt(max(0.0, half**2 - x.noise**2) + ((x.measured.high - x.measured.low) / 2) ** 2)
    return abs(x.measured.seconds - x.predicted.seconds) <= half
