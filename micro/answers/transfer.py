"""What the finished run of micro/transfer.py says: of sizes, gradients, layers, processes and new memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernels.ops.transfer.gradients import GRADIENTS
from micro.answers.band import Pair, grouped, interval
from micro.planning.contest import parse
from reports import record, units
from reports.record import Run

LINK = 8 * 2**30  # bytes a second: the text's 8 GB/s
CLAIMED = 0.0256  # seconds, the text's transfer
FEWEST = 4  # sizes of a fit
SURE = 0.95


@dataclass(frozen=True)
class Fit:
    """seconds = latency + bytes / rate, least squares of what is left as a share of each time; ends of the 95 %
    intervals; the largest such share, and at which size."""

    latency: tuple[float, float, float]
    rate: tuple[float, float, float]
    worst: float
    at: int


def fit(times: dict[int, float]) -> Fit | None:
    """By size in bytes; None of fewer sizes than FEWEST."""
    import numpy as np
    from scipy.special import stdtrit

    if len(times) < FEWEST:
        return None
    sizes, seconds = (np.array(x, float) for x in zip(*sorted(times.items()), strict=True))
    design = np.stack([1 / seconds, sizes / seconds], axis=1)
    found, *_ = np.linalg.lstsq(design, np.ones(len(sizes)), rcond=None)
    left = design @ found - 1
    spread = np.linalg.inv(design.T @ design) * (left @ left) / (len(sizes) - 2)
    half = float(stdtrit(len(sizes) - 2, 1 - (1 - SURE) / 2)) * np.sqrt(np.diag(spread))
    (latency, slope), (wide, steep) = map(float, found), map(float, half)
    worst, fastest = int(np.argmax(np.abs(left))), 1 / (slope - steep) if slope > steep else float("inf")
    ends = (latency, latency - wide, latency + wide), (1 / slope, 1 / (slope + steep), fastest)
    return Fit(*ends, float(left[worst]), int(sizes[worst]))


def curve(run: Run) -> list[str]:
    """A sentence a way: what the least costs, the rate of the most, the line through all."""
    times: dict[str, dict[int, float]] = {}
    for case, result in _timed(run, "curve/"):
        assert result.seconds is not None
        times.setdefault(_way(case), {})[case.problem.size] = result.seconds.median
    return [_line(way, by_size) for way, by_size in times.items()]


def _line(way: str, times: dict[int, float]) -> str:
    least, most = min(times), max(times)
    head = (
        f"{way}: {units.binary(least)} take {units.seconds(times[least])}, {units.binary(most)} go at "
        f"{_rate(most / times[most])}"
    )
    line = fit(times)
    if line is None:
        return f"{head}."
    latency = ", ".join(units.seconds(max(x, 0.0)) for x in line.latency[1:])
    rate = ", ".join(_rate(x) for x in line.rate[1:])
    return (
        f"{head}; latency {units.seconds(max(line.latency[0], 0.0))} [{latency}] and bandwidth {_rate(line.rate[0])} "
        f"[{rate}] fit all sizes to {100 * abs(line.worst):.0f} %, the worst at {units.binary(line.at)}."
    )


def _rate(each: float) -> str:
    return units.scaled(each, "B/s")


def _way(case: Any) -> str:
    """`memcpy`, `c-stream with 2 threads`."""
    threads: int = case.setting.threads
    return str(case.variant) + f" with {threads} threads" * (threads > 1)


def _timed(run: Run, kind: str) -> Iterator[tuple[Any, record.Result]]:
    for contest in run.contests:
        for result in contest.results if contest.contest.startswith(kind) else ():
            if result.role == "measured" and result.seconds:
                yield parse(result.name), result


def gradients(run: Run) -> list[str]:
    """A sentence a network, the fastest way first; then what the text's figure is."""
    by_size: dict[int, list[tuple[float, str]]] = {}
    for case, result in _timed(run, "gradient/"):
        assert result.seconds is not None
        by_size.setdefault(case.problem.size, []).append((result.seconds.median, _way(case)))
    titles = {gradient.nbytes: gradient.title for gradient in GRADIENTS.values()}
    sentences = []
    for size, ways in by_size.items():
        told = ", ".join(f"{way} {units.seconds(took)} ({_rate(size / took)})" for took, way in sorted(ways))
        sentences.append(f"{titles.get(size, 'A gradient')}'s gradient, {units.scaled(size, 'B')}: {told}.")
    return [*sentences, published()] if sentences else []


def published() -> str:
    """The literature's transfer of a gradient in 0.0256 s, worked out."""
    own, other = GRADIENTS["fcn-r"].nbytes, 55_000_000 * 4
    repository = 4 * 13_707_264  # bytes of the text's own count of FCN-R, without biases
    biased = 4 * 13_714_442
    four = [1e3 * 4 * size / LINK for size in (repository, biased)]
    return (
        f"The text's {CLAIMED} s for FCN-R's gradient (arXiv:1608.07249) is no single one: that is {own / 8e6:.1f} ms "
        f"at 8 GB/s. Four of them, one after the other over one link of 8 GiB/s, are {four[0]:.2f} to {four[1]:.2f} "
        f"ms; 55 million numbers, FCN-S's count in that text, are {1e3 * other / LINK:.2f} ms."
    )


def layers(run: Run) -> list[str]:
    """A sentence a network and way."""
    sentences = []
    for group in grouped(run, "layers/"):
        net, count = group[0].contender.problem.buffers, len(group[0].contender.problem.lengths)
        parts = [_form(pair) for pair in group]
        sentences.append(
            f"{_way(group[0].baseline)}, {GRADIENTS[net].title}: in {count} buffers, one a layer, "
            f"{' and '.join(parts)} times what one buffer takes."
        )
    return sentences


def _form(pair: Pair) -> str:
    each = ", a word awaited for each," if pair.contender.problem.waits == "each" else ""
    return f"{interval(pair.comparison)}{each}"


def processes(run: Run) -> list[str]:
    """A sentence a size: the ways into another process."""
    sentences = []
    for group in grouped(run, "process/"):
        told = ", ".join(f"{_way(pair.contender)} {interval(pair.comparison)}" for pair in group)
        size = units.binary(group[0].baseline.problem.size)
        sentences.append(f"{size} into another process, over {_way(group[0].baseline)} within one: {told}.")
    return sentences


def first_touch(run: Run) -> list[str]:
    """New memory against touched, huge pages against small."""
    sentences = []
    for group in grouped(run, "memory/"):
        pair = group[0]
        first, second = pair.baseline.problem, pair.contender.problem
        size = units.binary(second.size)
        if first.page != second.page:
            sentences.append(
                f"A copy of {size} in huge pages takes {interval(pair.comparison)} times one in small ones."
            )
        else:
            page = units.binary(second.page)
            sentences.append(
                f"A copy of {size} into new memory, pages of {page}, takes {interval(pair.comparison)} times one into "
                "touched memory."
            )
    return sentences
