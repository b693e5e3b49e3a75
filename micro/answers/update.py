"""Answers on weight updates, fused or separate: ratios, sums of their parts, crossover by batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from micro.findings.crossing import Crossing
from micro.findings.ratios import ratios
from micro.findings.select import Pair, interval, pairs
from micro.planning.contest import parse
from reports import flat, record, stats, units
from reports.record import Run

if TYPE_CHECKING:
    from kernels.problem import Array

CLOSED = 0.15  # relative difference up to which a sum of parts explains the measured time
CLEARS = ("openblas", "openblas-scipy")  # libraries whose GEMM with beta = 0 clears C, then accumulates into it


def fused_answer(run: Run) -> list[str]:
    """Return the sentences of `--fused`: sums of parts per layer and library, then all ratios."""
    sentences, rows, closed = [], 0, 0
    for contest, comparison, first, _ in pairs(run, "fused/"):
        library, layer = _library(first), first.problem
        totals = sums(contest)
        rows, closed = rows + len(totals), closed + sum(x.closed for x in totals)
        clearing = cleared(contest) if library in CLEARS else None
        head = f"{layer.m}×{layer.n}, batch {layer.k}, {library}: separate takes {interval(comparison)} times the fused"
        parts = [f"{head} product's time", *map(str, totals), *([str(clearing)] if clearing else [])]
        sentences.append(f"{'; '.join(parts)}.")
    if rows:
        sentences.append(
            f"{rows - closed} of {rows} rows unexplained: the sum of their parts differs by more than {CLOSED:.0%}."
        )
    return [*sentences, *ratios(run)]


def _library(case: Any) -> str:
    return str(case.variant.partition(":")[2])


def _layer(pair: Pair) -> tuple[str, int, int] | None:
    """Return (library, m, n) of a pair that compares the update pass with the gradient; else None."""
    x = pair.baseline.problem
    return (_library(pair.baseline), x.m, x.n) if pair.contender.problem.part == "update" else None


PASS = Crossing(
    "batch/", "the pass over W is cheaper than its gradient", "batch", lambda x: int(x.baseline.problem.k), _layer
)


def batch_answer(run: Run) -> list[str]:
    """Return the batch from which the update pass is cheaper than the gradient; all ratios if unknown."""
    return list(PASS(run)) or ratios(run)


@dataclass(frozen=True)
class Sum:
    """Measured seconds of an update, seconds of its parts, and the ratio of measured to summed."""

    what: str
    measured: float
    parts: tuple[tuple[str, float], ...]
    ratio: stats.Interval | None

    @property
    def total(self) -> float:
        return sum(seconds for _, seconds in self.parts)

    @property
    def closed(self) -> bool:
        return self.ratio is not None and abs(self.ratio.center - 1) <= CLOSED

    def __str__(self) -> str:
        """Format `separate 4.48 ms, sum 4.28 ms (gradient 3.34 ms, pass 0.94 ms), difference +4 % [+2, +6]`."""
        parts = ", ".join(f"{name} {units.seconds(seconds)}" for name, seconds in self.parts)
        head = f"{self.what} {units.seconds(self.measured)}, sum {units.seconds(self.total)} ({parts})"
        if self.ratio is None:
            return f"{head}, too few rounds to compare"
        center, low, high = (100 * (x - 1) for x in (self.ratio.center, self.ratio.low, self.ratio.high))
        end = "" if self.closed else ": unexplained"
        return f"{head}, difference {center:+.0f} % [{low:+.0f}, {high:+.0f}]{end}"


def summed(what: str, measured: Array, parts: Mapping[str, Array]) -> Sum:
    """Return the `Sum` of measured seconds against the parts' seconds, paired by round."""
    import numpy as np

    logs = np.log(measured / np.sum(list(parts.values()), axis=0))
    medians = tuple((name, float(np.median(x))) for name, x in parts.items())
    return Sum(what, float(np.median(measured)), medians, stats.interval(logs, 1 - stats.SHOWN))


class Rounds:
    """Seconds per accepted round of a contest's timed cases, by form (`fused`) or part (`wgrad`)."""

    def __init__(self, contest: record.Contest) -> None:
        import numpy as np

        timed: list[tuple[Any, record.Result]] = [(parse(x.name), x) for x in contest.measured if x.seconds]
        self.layer = next((case.problem for case, _ in timed if case.problem.part == "step"), None)
        parts = [case.problem for case, _ in timed if self._small(case.problem)]
        self.tile = next(iter(parts), None)
        self._times: dict[str, Array] = {}
        for case, result in timed:
            _, _, times = case.variant.partition("*")  # number of calls in a launch, for a tile of the layer
            if seconds := [result.samples[i] for i in flat.accepted(result)]:
                self._times[self._key(case)] = np.array(seconds) / int(times or 1)

    def _small(self, problem: Any) -> bool:
        return self.layer is not None and (problem.m, problem.n) != (self.layer.m, self.layer.n)

    def _key(self, case: Any) -> str:
        """Return the key of a case, its form or part: `fused`, `wgrad`, `tile wgrad`."""
        problem: Any = case.problem
        if problem.part == "step":
            return str(case.variant.partition(":")[0])
        return f"tile {problem.part}" if self._small(problem) else str(problem.part)

    def get(self, name: str) -> Array | None:
        """Return the seconds of a form or a part by round; None if it was not timed."""
        return self._times.get(name)

    def sum(self, what: str, parts: Mapping[str, Array | None]) -> Sum | None:
        """Return the `Sum` of form `what` and its parts; None if any of these was not timed."""
        measured, timed = self.get(what), {k: x for k, x in parts.items() if x is not None}
        return None if measured is None or len(timed) < len(parts) else summed(what, measured, timed)

    def multiply_adds(self) -> Array | None:
        """Return the seconds of the GEMM's multiply-adds, at the rate of a tile whose result is in cache."""
        product = self.get("tile wgrad" if self._share > 1 else "wgrad")
        return None if product is None else self._share * product

    def traffic(self) -> Array | None:
        """Return the seconds to read and write W, less those of the tiles that `multiply_adds` includes."""
        full, tile = self.get("scale"), self.get("tile scale" if self._share > 1 else "scale")
        if full is None or tile is None:
            return None
        beyond: Array = full - self._share * tile
        return beyond

    @property
    def _share(self) -> float:
        """Size of the layer in tiles."""
        return 1.0 if self.layer is None or self.tile is None else self.layer.count / self.tile.count


def sums(contest: record.Contest) -> list[Sum]:
    """Return sums for the separate form (gradient, pass) and the fused form (multiply-adds, traffic)."""
    rounds = Rounds(contest)
    pieces = {"gradient": rounds.get("wgrad"), "pass": rounds.get("update")}
    separate = rounds.sum("separate", pieces)
    fused = rounds.sum("fused", {"multiply-adds": rounds.multiply_adds(), "traffic of W": rounds.traffic()})
    return [x for x in (separate, fused) if x]


def cleared(contest: record.Contest) -> Sum | None:
    """Return the gradient's GEMM against the sum of an accumulating GEMM and clearing its result."""
    rounds = Rounds(contest)
    total = rounds.sum("wgrad", {"fused product": rounds.get("fused"), "clearing": rounds.get("clear")})
    return total and replace(total, what="gradient")
