"""Answer of `micro.transfer --curve`: latency and bandwidth, a linear fit per memory level."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from micro.findings.select import timed
from reports import units
from reports.record import Run

if TYPE_CHECKING:
    from kernels.problem import Array

FEWEST = 3  # least number of sizes to fit a line
SURE = 0.95
BETTER = 0.1  # a cut has to reduce the sum of squared residuals below this share; chance alone halves it
EDGE = 1.5  # sizes within this factor of a cache belong to no level


@dataclass(frozen=True)
class Line:
    """Fit of seconds = latency + bytes / rate over a range of sizes, by relative least squares."""

    first: int  # smallest size in bytes
    last: int  # largest size
    latency: tuple[float, float, float]  # seconds, with the ends of the 95 % interval
    rate: tuple[float, float, float | None]  # bytes per second; the upper end may be unbounded
    worst: float  # largest relative residual, without its sign
    at: int  # size in bytes with the residual `worst`


def way(case: Any) -> str:
    """Format a variant: `memcpy`, `c-stream with 2 threads`, `both-pinned, each way`."""
    threads: int = case.setting.threads
    each: str = ", each way" * case.variant.startswith("both-")
    return str(case.variant) + each + f" with {threads} threads" * (threads > 1)


def rate(each: float) -> str:
    """Format bytes per second."""
    return units.scaled(each, "B/s")


def fit(times: Mapping[int, float]) -> Line | None:
    """Fit a line to seconds by size in bytes; None for fewer than FEWEST sizes."""
    import numpy as np
    from scipy.special import stdtrit

    if len(times) < FEWEST:
        return None
    sizes, seconds, solution, left = _solved(times)
    design = np.stack([1 / seconds, sizes / seconds], axis=1)
    spread = np.linalg.inv(design.T @ design) * (left @ left) / (len(sizes) - 2)
    half = float(stdtrit(len(sizes) - 2, 1 - (1 - SURE) / 2)) * np.sqrt(np.diag(spread))
    (latency, slope), (wide, steep) = map(float, solution), map(float, half)
    worst, fastest = int(np.argmax(np.abs(left))), 1 / (slope - steep) if slope > steep else None
    ends = (latency, latency - wide, latency + wide), (1 / slope, 1 / (slope + steep), fastest)
    return Line(int(sizes[0]), int(sizes[-1]), *ends, abs(float(left[worst])), int(sizes[worst]))


def _solved(times: Mapping[int, float]) -> tuple[Array, Array, Array, Array]:
    """Return sorted sizes, their seconds, (latency, seconds per byte), and relative residuals."""
    import numpy as np

    sizes, seconds = (np.array(x, float) for x in zip(*sorted(times.items()), strict=True))
    design = np.stack([1 / seconds, sizes / seconds], axis=1)
    solution, *_ = np.linalg.lstsq(design, np.ones(len(sizes)), rcond=None)
    return sizes, seconds, solution, design @ solution - 1


def lines(times: Mapping[int, float], caches: Sequence[int]) -> list[Line]:
    """Fit a line to each memory level with enough sizes, both operands well inside the level.

    The end of the last cache is fitted, since the cache may be shared and smaller than reported."""
    levels: list[dict[int, float]] = []
    rest = dict(sorted(times.items()))
    for cache in sorted(caches)[:-1]:
        inside = {size: rest.pop(size) for size in list(rest) if 2 * size * EDGE <= cache}
        rest = {size: took for size, took in rest.items() if 2 * size > EDGE * cache}
        levels.append(inside)
    return [line for level in (*levels, *_cut(rest)) if (line := fit(level))]


def _cut(times: dict[int, float]) -> list[dict[int, float]]:
    """Split sizes where that reduces residuals below BETTER: at a cache's end or a change of algorithm."""
    sizes = list(times)
    best = [times]
    for count in range(1, len(sizes) // FEWEST):
        every = itertools.combinations(range(FEWEST, len(sizes) - FEWEST + 1), count)
        bounds = [(0, *cuts, len(sizes)) for cuts in every]
        long = [x for x in bounds if all(b - a >= FEWEST for a, b in itertools.pairwise(x))]
        parts = [[{size: times[size] for size in sizes[a:b]} for a, b in itertools.pairwise(x)] for x in long]
        least = min(parts, key=_squares)
        if _squares(least) < BETTER * _squares(best):
            best = least
    return best


def _squares(parts: Sequence[Mapping[int, float]]) -> float:
    return sum(float(left @ left) for *_, left in map(_solved, parts))


def curve(run: Run) -> list[str]:
    """Return a sentence per variant with a fitted line per memory level, below a heading."""
    times: dict[str, dict[int, float]] = {}
    for _, case, result in timed(run, "curve/"):
        assert result.seconds is not None
        times.setdefault(way(case), {})[case.problem.size] = result.seconds.median
    caches = run.environment.facts.get("device", {}).get("caches", [])
    sentences = [_of_way(name, by_size, lines(by_size, caches)) for name, by_size in times.items()]
    if any("%" in sentence for sentence in sentences):
        head = (
            "Cost of a call + bandwidth [95 %] by memory level, and the largest deviation of a size from this fit "
            "(a byte that is read and written counts once):"
        )
        sentences.insert(0, head)
    return sentences


def _of_way(name: str, times: dict[int, float], segments: Sequence[Line]) -> str:
    if not segments:
        least, most = min(times), max(times)
        took = f"{units.binary(least)} in {units.seconds(times[least])}"
        return f"{name}: {took}, {units.binary(most)} at {rate(most / times[most])}."
    return f"{name}: {'; '.join(map(_line, segments))}."


def _line(line: Line) -> str:
    """Format a line: `1 KiB to 16 KiB 2.1 ns [1.9, 2.3] + 210 GB/s [190, 230], 4 %`."""
    span = f"{units.binary(line.first)} to {units.binary(line.last)}"
    _, low, high = line.latency
    call = _spread(line.latency, "s")
    if low <= 0:
        call = f"under {units.seconds(high)}" if high > 0 else "nothing"
    return f"{span} {call} + {_spread(line.rate, 'B/s')}, {100 * line.worst:.0f} %"


def _spread(ends: tuple[float, float, float | None], unit: str) -> str:
    """Format an interval in the unit of its center: `2.10 ns [1.9, 2.3]`; a dash for a missing end."""
    middle = units.scaled(ends[0], unit)
    scale = float(middle.partition(" ")[0]) / ends[0]
    low, high = ("–" if x is None else _figures(scale * x) for x in ends[1:])
    return f"{middle} [{low}, {high}]"


def _figures(value: float) -> str:
    """Format three significant figures without an exponent."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
