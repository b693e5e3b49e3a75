"""Looks, intervals and verdicts: when a ratio is known, how well, and what may be said of it.

x are logarithms of per-round ratios, contender over baseline, accepted rounds only, in the order taken.
The estimator and the sharing of the error were chosen by simulation; `micro.measuring.coverage` repeats it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[Any]

Verdict: TypeAlias = Literal["slower", "faster", "same", "unresolved", "not comparable"]

LOOKS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)  # accepted rounds
FEW = 64  # rounds; with fewer affordable there is one look, and less is trimmed there
SHARE = 3.0  # each look spends a third of the error; an exact Pocock constant would be a sixth
FEWEST = 6  # rounds; no interval from fewer
SHOWN, JUDGED = 0.95, 0.99
WANDERS = 0.3  # a lag-1 autocorrelation above it is told


@dataclass(frozen=True, slots=True)
class Interval:
    """Of a ratio: centre, ends, and the lag-1 autocorrelation of the rounds behind it."""

    center: float
    low: float
    high: float
    lag1: float

    @property
    def half(self) -> float:
        """Half-width as a share of the centre."""
        return (self.high - self.low) / 2 / self.center


@dataclass(frozen=True, slots=True)
class Judgment:
    """The 95 % interval shown and the verdict, which comes from a 99 % interval and the margin."""

    shown: Interval | None
    verdict: Verdict
    reason: str | None
    rounds: int
    strict: Interval | None = None  # the one the verdict came from

    def settled(self, target: float) -> bool:
        """Whether more rounds would change nothing worth knowing."""
        if self.shown is None:
            return False
        known = self.verdict != "unresolved" or self.reason == AT_THE_MARGIN
        return known and self.shown.half <= target


AT_THE_MARGIN = "at the margin"


@functools.lru_cache(maxsize=4096)
def quantile(degrees: float, probability: float) -> float:
    """Student's t: the value that a variable of so many degrees of freedom stays below with this probability."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def lag1(*series: Floats) -> float:
    """Lag-1 autocorrelation that series have in common, each around its own mean; corrected for its bias in short
    ones (Marriott and Pope 1954), within 0 … 0.9."""
    apart = [w - w.mean() for w in series]
    square = sum(float(d @ d) for d in apart)
    r = sum(float(d[1:] @ d[:-1]) for d in apart) / square if square > 0 else 0.0
    n = sum(map(len, series)) / len(series)
    return min(0.9, max(0.0, r + (1 + 4 * max(r, 0.0)) / n))


def _trimmed(x: Floats, share: float) -> tuple[float, Floats, int]:
    """Mean without a share at each end; the rounds winsorized there; how many are left between."""
    import numpy as np

    n = len(x)
    k = max(1, int(n * share))
    ordered = np.sort(x)
    return float(ordered[k : n - k].mean()), np.clip(x, ordered[k], ordered[n - k - 1]), n - 2 * k


def interval(x: Floats, alpha: float, trimmed: float = 0.25, independent: bool = False) -> Interval | None:
    """1 − alpha interval of the ratio: trimmed mean, Student t on the winsorized variance (Tukey and
    McLaughlin 1963), widened by the root of tau = (1 + r)/(1 − r) for autocorrelated rounds, unless they
    are known to be independent."""
    n = len(x)
    if n < FEWEST:
        return None
    center, w, h = _trimmed(x, trimmed)
    r = 0.0 if independent else lag1(w)
    tau = (1 + r) / (1 - r)
    deviation = float(w.std(ddof=1)) * math.sqrt((n - 1) / (h * (h - 1)))
    half = quantile(max(2.0, h / tau - 1), 1 - alpha / 2) * deviation * math.sqrt(tau)
    return Interval(math.exp(center), math.exp(center - half), math.exp(center + half), r)


def judge(x: Floats, margin: float, last_only: bool = False) -> Judgment:
    """What the rounds so far say. `last_only`: this is the only look there will be, with the whole error.

    Of a few long calls an eighth is trimmed at each end: a quarter leaves so few degrees of freedom that
    chance in tau triples every seventh interval; simulated coverage is the same (`micro.measuring.coverage`).
    """
    share = 1.0 if last_only else SHARE
    trimmed = _once(len(x)) if last_only else 0.25
    shown = interval(x, (1 - SHOWN) / share, trimmed)
    strict = interval(x, (1 - JUDGED) / share, trimmed)
    if shown is None or strict is None:
        return Judgment(None, "unresolved", f"{len(x)} accepted rounds, an interval needs {FEWEST}", len(x))
    return _verdict(shown, strict, margin, len(x))


def _once(rounds: int) -> float:
    """What is trimmed at each end of rounds that are looked at once."""
    return 0.125 if rounds < FEW else 0.25


def across(x: Floats, margin: float, family: int) -> Judgment:
    """What processes say, a ratio from each pair. `family`: so many comparisons share the verdicts' error
    (Bonferroni 1936), so that a whole run is wrong in one of a hundred at most."""
    shown = interval(x, 1 - SHOWN, 0.125, independent=True)
    strict = interval(x, (1 - JUDGED) / family, 0.125, independent=True)
    if shown is None or strict is None:
        return Judgment(None, "unresolved", f"{len(x)} processes, an interval needs {FEWEST}", len(x))
    return _verdict(shown, strict, margin, len(x))


def between(first: Sequence[float], second: Sequence[float], margin: float, family: int) -> Judgment:
    """Two groups of processes that were not paired: logarithms of times; Welch's t (1947)."""
    import numpy as np

    a, b = np.array(first), np.array(second)
    parts = [float(x.var(ddof=1)) / len(x) for x in (a, b)]
    center, error = float(b.mean() - a.mean()), math.sqrt(sum(parts))
    degrees = sum(parts) ** 2 / max(sum(part**2 / (len(x) - 1) for part, x in zip(parts, (a, b), strict=True)), 1e-300)
    found = []
    for alpha in (1 - SHOWN, (1 - JUDGED) / family):
        half = quantile(max(1.0, degrees), 1 - alpha / 2) * error
        found.append(Interval(math.exp(center), math.exp(center - half), math.exp(center + half), 0.0))
    return _verdict(found[0], found[1], margin, min(len(a), len(b)))


def nested(groups: Sequence[Floats], margin: float) -> Judgment:
    """Rounds of several generations of processes, looked at once: the spread between generations is part of the
    interval. Coverage was simulated (`micro.measuring.coverage.of_generations`)."""
    rounds = sum(map(len, groups))
    if not groups or min(map(len, groups)) < FEWEST:
        return Judgment(None, "unresolved", f"{rounds} rounds, an interval needs {FEWEST} a generation", rounds)
    shown, strict = _nested(groups, 1 - SHOWN), _nested(groups, 1 - JUDGED)
    return _verdict(shown, strict, margin, rounds)


def _nested(groups: Sequence[Floats], alpha: float) -> Interval:
    """Mean of the generations' trimmed means. Its variance is that of a random-effects model (DerSimonian and Laird
    1986) whose rounds have one variance and one autocorrelation in all generations: of eight rounds by themselves
    neither is known. Where generations differ by more than their rounds explain, what is known of it is as little as
    there are generations; else the degrees of freedom are those of all rounds."""
    count = len(groups)
    parts = [_trimmed(x, _once(len(x))) for x in groups]
    left = [h for _, _, h in parts]
    r = lag1(*(w for _, w, _ in parts))
    tau = (1 + r) / (1 - r)
    square = sum((len(w) - 1) * float(w.var(ddof=1)) for _, w, _ in parts)
    within = tau * square / (sum(left) - count) * sum(1 / h for h in left) / count
    center = sum(c for c, _, _ in parts) / count
    spread = sum((c - center) ** 2 for c, _, _ in parts) / (count - 1) if count > 1 else 0.0
    degrees = count - 1 if spread > within else max(2.0, sum(left) / tau - count)
    half = quantile(degrees, 1 - alpha / 2) * math.sqrt(max(within, spread) / count)
    return Interval(math.exp(center), math.exp(center - half), math.exp(center + half), r)


def _verdict(shown: Interval, strict: Interval, margin: float, rounds: int) -> Judgment:
    if strict.low > 1 + margin:
        return Judgment(shown, "slower", None, rounds, strict)
    if strict.high < 1 - margin:
        return Judgment(shown, "faster", None, rounds, strict)
    if strict.low >= 1 - margin and strict.high <= 1 + margin:
        return Judgment(shown, "same", None, rounds, strict)
    reason = AT_THE_MARGIN if strict.half < margin / 4 else None
    return Judgment(shown, "unresolved", reason, rounds, strict)


def order_interval(x: Floats, confidence: float = SHOWN) -> tuple[float, float, float]:
    """Median with a distribution-free interval from order statistics; unbounded below six values."""
    import numpy as np
    from scipy.special import bdtrik

    n, ordered = len(x), np.sort(x)
    middle = float(np.median(ordered))
    if n < FEWEST:
        return middle, math.nan, math.nan
    below = int(bdtrik((1 - confidence) / 2, n, 0.5))  # so many values lie under the interval
    return middle, float(ordered[below]), float(ordered[n - 1 - below])


def wilson(hits: int, trials: int, confidence: float = SHOWN) -> tuple[float, float]:
    """Interval of a proportion (Wilson 1927)."""
    from scipy.special import ndtri

    if trials == 0:
        return 0.0, 1.0
    z = float(ndtri(0.5 + confidence / 2))
    p, d = hits / trials, 1 + z * z / trials
    middle = (p + z * z / (2 * trials)) / d
    half = z / d * math.sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    return max(0.0, middle - half), min(1.0, middle + half)
