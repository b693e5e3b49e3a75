"""Statistics of ratios: batches of rounds, intervals, verdicts.

`x`: logarithms of per-round ratios, contender over baseline, accepted rounds only, in the order taken. The
estimator and the error's division among batches were chosen by simulation (`tests/reports/coverage.py`)."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from reports import slow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[Any]

Verdict: TypeAlias = Literal["slower", "faster", "same", "unresolved", "not comparable"]

LOOKS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)  # accepted rounds after which a contest may be judged
FEW = 64  # rounds; if the budget affords fewer, there is one batch
SHARE = 2.0  # each of several batches spends half of the error: most contests end on their width, whatever the error
FEWEST = 6  # rounds; no interval from fewer
SHOWN, JUDGED = 0.95, 0.99
TRIMMED = 0.1875  # share of the rounds trimmed at each end, rounded down, but at least one round
SPARED = 0.125  # share of processes trimmed at each end
PATIENCE = 0.1  # seconds that a contest may take before its first judgment, for rounds that show slow change
ROUNDS, PROCESSES = "rounds, mean without 3/16 at each end", "processes, mean without an eighth at each end"
GENERATIONS, RUNS = "generations of rounds, mean without 3/16 at each end", "processes of two runs, mean"


@dataclass(frozen=True, slots=True)
class Interval:
    """Confidence interval of a ratio: center, ends, and the lag-1 autocorrelation of its rounds."""

    center: float
    low: float
    high: float
    lag1: float

    @property
    def half(self) -> float:
        """Half-width as a share of the center."""
        return (self.high - self.low) / 2 / self.center


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean of log ratios and its standard error, estimated in several ways.

    `forms`: degrees of freedom and standard error by each way; the interval is the widest of these."""

    center: float
    forms: tuple[tuple[float, float], ...]
    lag1: float = 0.0

    def half(self, alpha: float) -> float:
        """Return the half-width of the 1 − alpha interval."""
        return max(quantile(degrees, 1 - alpha / 2) * error for degrees, error in self.forms)

    def p(self, distance: float) -> float:
        """Return the smallest alpha whose interval has a half-width of at most `distance`."""
        from scipy.special import stdtr

        if distance <= 0:
            return 1.0
        return max(2 * float(stdtr(n, -distance / error)) if error > 0 else 0.0 for n, error in self.forms)

    def interval(self, alpha: float) -> Interval:
        """Return the 1 − alpha interval of the ratio; the mean is of logarithms."""
        half = self.half(alpha)
        return Interval(math.exp(self.center), math.exp(self.center - half), math.exp(self.center + half), self.lag1)


@dataclass(frozen=True, slots=True)
class Judgment:
    """The 95 % interval shown and the verdict, which comes from a 99 % interval and the margin."""

    shown: Interval | None
    verdict: Verdict
    reason: str | None
    rounds: int
    strict: Interval | None = None  # the interval behind the verdict
    p: float | None = None  # p-value of the verdict, the smallest error at which it stands; 1: unresolved at any
    kind: str | None = None  # of the interval: averaged units (rounds, processes …) and their trimming
    notes: tuple[str, ...] = ()  # remarks on slow change

    def settled(self, target: float) -> bool:
        """Return whether the verdict is final and the interval's half-width within `target`."""
        if self.shown is None:
            return False
        final = self.verdict != "unresolved" or self.reason == AT_THE_MARGIN
        return final and self.shown.half <= target


AT_THE_MARGIN = "at the margin"
NEEDED = f"of the {FEWEST} rounds that an interval needs"


@functools.lru_cache(maxsize=4096)
def quantile(degrees: float, probability: float) -> float:
    """Return the quantile of Student's t distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def looks(seconds: float) -> tuple[int, ...]:
    """Return the numbers of rounds after which a contest is judged. `seconds`: duration of a round.

    The first batch ends at SEEN rounds, or at as many as fit into PATIENCE."""
    affordable = min(slow.SEEN, PATIENCE / seconds if seconds > 0 else slow.SEEN)
    first = max((n for n in LOOKS if n <= affordable), default=LOOKS[0])
    return LOOKS[LOOKS.index(first) :]


def lag1(*series: Floats) -> float:
    """Return the lag-1 autocorrelation pooled over series, each centered on its mean.

    It is corrected for the bias in short series (Marriott and Pope 1954) and clipped to 0 … 0.9."""
    apart = [w - w.mean() for w in series]
    square = sum(float(d @ d) for d in apart)
    r = sum(float(d[1:] @ d[:-1]) for d in apart) / square if square > 0 else 0.0
    n = sum(map(len, series)) / len(series)
    return min(0.9, max(0.0, r + (1 + 4 * max(r, 0.0)) / n))


def _trimmed(x: Floats, share: float) -> tuple[float, Floats, int]:
    """Return the trimmed mean, the winsorized rounds, and the number of untrimmed rounds."""
    import numpy as np

    n = len(x)
    k = max(1, int(n * share)) if share else 0
    ordered = np.sort(x)
    return float(ordered[k : n - k].mean()), np.clip(x, ordered[k], ordered[n - k - 1]), n - 2 * k


def estimate(x: Floats, trimmed: float = TRIMMED, independent: bool = False) -> Estimate:
    """Return the trimmed mean with its error from the winsorized variance (Tukey and McLaughlin 1963).

    Unless the rounds are `independent`, the error has two forms: multiplied by the root of tau = (1 + r)/(1
    − r), r their lag-1 autocorrelation, and from their projections on the lowest-frequency cosines."""
    n = len(x)
    center, w, h = _trimmed(x, trimmed)
    error = float(w.std(ddof=1)) * math.sqrt((n - 1) / (h * (h - 1)))
    if independent:
        return Estimate(center, ((max(2.0, h - 1), error),))
    r = lag1(w)
    tau = (1 + r) / (1 - r)
    cosines = slow.cosines(n)
    forms = (max(2.0, h / tau - 1), error * math.sqrt(tau)), (cosines, slow.error(w, cosines) * n / h)
    return Estimate(center, forms, r)


def interval(x: Floats, alpha: float, trimmed: float = TRIMMED, independent: bool = False) -> Interval | None:
    """Return the 1 − alpha interval of the ratio; None from fewer than six rounds."""
    return estimate(x, trimmed, independent).interval(alpha) if len(x) >= FEWEST else None


def judge(x: Floats, margin: float, last_only: bool = False) -> Judgment:
    """Return the judgment of the rounds so far. `last_only`: the only batch, which spends all the error."""
    if len(x) < FEWEST:
        return Judgment(None, "unresolved", f"{len(x)} {NEEDED}", len(x))
    mean = estimate(x)
    share = 1.0 if last_only else SHARE
    notes = slow.notes(len(x), mean.forms, mean.lag1)
    return _judged(mean, (share, share), margin, len(x), ROUNDS, notes)


def across(x: Floats, margin: float, family: int) -> Judgment:
    """Return the judgment of pairs of processes, with one log ratio per pair.

    `family`: number of comparisons that share the verdicts' error (Bonferroni 1936), so that any verdict of a run is
    wrong in one run of a hundred at most."""
    if len(x) < FEWEST:
        return Judgment(None, "unresolved", f"{len(x)} processes, an interval needs {FEWEST}", len(x))
    return _judged(estimate(x, SPARED, independent=True), (1.0, family), margin, len(x), PROCESSES)


def between(first: Sequence[float], second: Sequence[float], margin: float, family: int) -> Judgment:
    """Return the judgment of two groups of unpaired processes by Welch's t-test (1947).

    `first`, `second`: logarithms of times, one per process."""
    import numpy as np

    a, b = np.array(first), np.array(second)
    parts = [float(x.var(ddof=1)) / len(x) for x in (a, b)]
    center, error = float(b.mean() - a.mean()), math.sqrt(sum(parts))
    degrees = sum(parts) ** 2 / max(sum(part**2 / (len(x) - 1) for part, x in zip(parts, (a, b), strict=True)), 1e-300)
    mean = Estimate(center, ((max(1.0, degrees), error),))
    return _judged(mean, (1.0, family), margin, min(len(a), len(b)), RUNS)


def nested(groups: Sequence[Floats], margin: float) -> Judgment:
    """Return the judgment of rounds of several generations of processes, in one batch.

    The spread between generations is part of the interval."""
    rounds = sum(map(len, groups))
    if not groups or min(map(len, groups)) < FEWEST:
        return Judgment(None, "unresolved", f"{rounds} rounds, an interval needs {FEWEST} per generation", rounds)
    if len(groups) == 1:
        return judge(groups[0], margin, last_only=True)
    return _judged(generations(groups), (1.0, 1.0), margin, rounds, GENERATIONS)


def through(contender: Sequence[Floats], baseline: Sequence[Floats], margin: float) -> Judgment:
    """Return the judgment of two cases that were each timed in rounds with a common third case.

    Both arguments are log ratios to that case, by generation; their difference has the errors of both (Welch
    1947)."""
    sides = contender, baseline
    rounds = sum(len(x) for groups in sides for x in groups)
    if any(not groups or min(map(len, groups)) < FEWEST for groups in sides):
        return Judgment(None, "unresolved", f"{rounds} rounds, an interval needs {FEWEST} per generation", rounds)
    over, under = generations(contender), generations(baseline)
    forms = tuple(_added(x, y) for x, y in itertools.product(over.forms, under.forms))
    alone = [(groups[0], side) for groups, side in zip(sides, (over, under), strict=True) if len(groups) == 1]
    notes = dict.fromkeys(text for x, side in alone for text in slow.notes(len(x), side.forms, side.lag1))
    kind = ROUNDS if alone else GENERATIONS
    return _judged(Estimate(over.center - under.center, forms), (1.0, 1.0), margin, rounds, kind, tuple(notes))


def _added(x: tuple[float, float], y: tuple[float, float]) -> tuple[float, float]:
    """Return degrees of freedom (Welch–Satterthwaite) and standard error of a difference."""
    (n, a), (m, b) = x, y
    error = math.hypot(a, b)
    return (error**4 / (a**4 / n + b**4 / m) if error else min(n, m)), error


def generations(groups: Sequence[Floats], trimmed: float = TRIMMED) -> Estimate:
    """Return the mean of the groups' trimmed means, with its error in two forms.

    The first form is from the spread of the means, with one degree of freedom less than there are groups, which is
    right whatever differs between groups; the second is from all rounds, as if groups were alike, with one variance and
    one autocorrelation for all groups. A single group has the estimate of its rounds."""
    count = len(groups)
    if count == 1:
        return estimate(groups[0], trimmed)
    parts = [_trimmed(x, trimmed) for x in groups]
    left = [h for _, _, h in parts]
    r = lag1(*(w for _, w, _ in parts))
    tau = (1 + r) / (1 - r)
    square = sum((len(w) - 1) * float(w.var(ddof=1)) for _, w, _ in parts)
    within = tau * square / (sum(left) - count) * sum(1 / h for h in left) / count
    center = sum(c for c, _, _ in parts) / count
    spread = sum((c - center) ** 2 for c, _, _ in parts) / (count - 1)
    forms = (count - 1, math.sqrt(spread / count)), (max(2.0, sum(left) / tau - count), math.sqrt(within / count))
    return Estimate(center, forms, r)


def _judged(
    mean: Estimate, shares: tuple[float, float], margin: float, rounds: int, kind: str, notes: tuple[str, ...] = ()
) -> Judgment:
    """Return the judgment of a mean. `shares`: divisors of alpha for the shown and the verdict's interval."""
    shown, strict = mean.interval((1 - SHOWN) / shares[0]), mean.interval((1 - JUDGED) / shares[1])
    above, below = mean.center - math.log1p(margin), math.log1p(-margin) - mean.center
    p = min(1.0, shares[1] * mean.p(max(above, below, min(-above, -below))))
    verdict, reason = _verdict(strict, margin)
    return Judgment(shown, verdict, reason, rounds, strict, p, kind, notes)


def _verdict(strict: Interval, margin: float) -> tuple[Verdict, str | None]:
    if strict.low > 1 + margin:
        return "slower", None
    if strict.high < 1 - margin:
        return "faster", None
    if strict.low >= 1 - margin and strict.high <= 1 + margin:
        return "same", None
    return "unresolved", AT_THE_MARGIN if strict.half < margin / 4 else None


def order_interval(x: Floats, confidence: float = SHOWN) -> tuple[float, float, float]:
    """Return the median of x and the ends of its confidence interval from order statistics.

    `x` is in the order taken: autocorrelation widens the interval, through the error of the share of values below the
    median. The ends are NaN if too few values bound the interval."""
    import numpy as np

    n, ordered = len(x), np.sort(x)
    middle = float(np.median(ordered))
    if n < FEWEST:
        return middle, math.nan, math.nan
    below = (np.sign(x - middle) + 1) / 2
    first = math.floor(n * (0.5 - estimate(below, 0.0).half(1 - confidence)))  # so many values lie under the interval
    if first < 0:
        return middle, math.nan, math.nan
    return middle, float(ordered[first]), float(ordered[n - 1 - first])


def wilson(hits: int, trials: int, confidence: float = SHOWN) -> tuple[float, float]:
    """Return the confidence interval of a proportion (Wilson 1927)."""
    from scipy.special import ndtri

    if trials == 0:
        return 0.0, 1.0
    z = float(ndtri(0.5 + confidence / 2))
    p, d = hits / trials, 1 + z * z / trials
    middle = (p + z * z / (2 * trials)) / d
    half = z / d * math.sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    return max(0.0, middle - half), min(1.0, middle + half)
