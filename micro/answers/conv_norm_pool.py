"""Answers of micro.conv --norm-and-pool: time of normalization and pooling relative to convolutions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from micro.answers.sums import accepted
from micro.planning.conv_followed import NETS, PREFIX, layers
from reports import record, stats, units
from reports.record import Result, Run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times: TypeAlias = NDArray[Any]  # seconds of a step, by round

KINDS = {
    ("norm", "train"): "Batch normalization",
    ("norm", "frozen"): "Batch normalization with kept statistics",
    ("norm", "lrn"): "Local response normalization",
    ("pooling", ""): "Max-pooling",
}
FORMS = {"c-ops": "c (operation by operation)"}


@dataclass(frozen=True)
class Measured:
    """Times of one layer's contest, each multiplied by how often the network has the layer."""

    convolution: Times  # of all passes together
    after: dict[tuple[str, str], Times]  # of what follows the convolution, by kind and kernel
    lost: dict[tuple[str, str], Result]  # cases without a time


def answer(run: Run) -> list[str]:
    """Report for each network, kind and kernel a share, or why there is none."""
    groups: dict[tuple[str, str], list[record.Contest]] = {}
    for contest in run.contests:
        if contest.contest.startswith(f"{PREFIX}/"):
            key = contest.contest.split("/")[1], contest.results[0].variant
            groups.setdefault(key, []).append(contest)
    return [sentence for (net, variant), contests in groups.items() for sentence in _network(net, variant, contests)]


def _network(name: str, variant: str, contests: Sequence[record.Contest]) -> Iterator[str]:
    net, counts = NETS[name], {layer.name: layer.count for layer in layers(name)}
    measured = []
    for contest in contests:
        lost = next((x for x in _convolutions(contest) if x.seconds is None), None)
        if lost is not None:
            yield f"{net.title}: no sum of its convolutions by {variant}: {lost.name} {lost.status}: {lost.reason}."
            return
        if len(accepted(_convolutions(contest)[0])):  # a layer all of whose rounds were rejected is left out
            measured.append(_measured(counts[contest.contest.split("/")[2].removeprefix("layer:")], contest))
    if not measured:
        yield f"{net.title}: no sum of its convolutions by {variant}: all rounds were rejected."
        return
    batch = _convolutions(contests[0])[0].problem["n"]
    part = "" if len(measured) == len(counts) else f", {len(measured)} of its {len(counts)} distinct layers alone"
    for kind, kernel in dict.fromkeys(key for x in measured for key in (*x.after, *x.lost)):
        without = next((x.lost[kind, kernel] for x in measured if (kind, kernel) in x.lost), None)
        by = f"{kind} by {FORMS.get(kernel, kernel)}"
        if without is not None:
            yield f"{by}: no sum over {net.title}: {without.name} {without.status}: {without.reason}."
            continue
        times = [x.after.get((kind, kernel), 0 * x.convolution) for x in measured]
        share, seconds = _share(times, [x.convolution for x in measured])
        yield (
            f"{by} takes {share} of the time of {net.title}'s convolutions by {variant}, forward and backward: "
            f"{seconds} a step, batch {batch}{part}."
        )


def _convolutions(contest: record.Contest) -> list[Result]:
    return [x for x in contest.results if x.role == "measured" and x.op == "conv"]


def _measured(count: int, contest: record.Contest) -> Measured:
    import numpy as np

    followers = [x for x in contest.results if x.role == "measured" and x.op != "conv" and x.status != "skipped"]
    return Measured(
        count * np.sum([accepted(x) for x in _convolutions(contest)], axis=0),
        {(_kind(x), x.variant): count * accepted(x) for x in followers if x.seconds},
        {(_kind(x), x.variant): x for x in followers if not x.seconds},
    )


def _kind(result: Result) -> str:
    lrn = result.problem.get("method") == "lrn"
    return KINDS[result.op, "lrn" if lrn else result.problem.get("mode", "")]


def _share(after: Sequence[Times], convolution: Sequence[Times]) -> tuple[str, str]:
    """Format the quotient of sums over layers, `21 % [19 %, 23 %]`, and `39 ms beside 186 ms`.

    Its error is that of Σ (following − quotient · convolution) by round; each layer has its separate rounds."""
    total, base = (sum(map(_center, times)) for times in (after, convolution))
    share = total / base
    seconds = f"{units.seconds(total)} beside {units.seconds(base)}"
    if min(map(len, convolution)) < stats.FEWEST:
        return f"{100 * share:.2g} % (no interval from fewer than {stats.FEWEST} rounds: a longer --budget)", seconds
    rest = [mine - share * theirs for mine, theirs in zip(after, convolution, strict=True)]
    half = math.hypot(*(stats.estimate(x).half(1 - stats.SHOWN) for x in rest)) / base
    places = min(2, max(0, math.ceil(-math.log10(max(100 * half, 1e-9)))))
    text = [f"{100 * x:.{places}f} %" for x in (share, share - half, share + half)]
    return f"{text[0]} [{text[1]}, {text[2]}]", seconds


def _center(times: Times) -> float:
    import numpy as np

    return stats.estimate(times).center if len(times) >= stats.FEWEST else float(np.median(times))
