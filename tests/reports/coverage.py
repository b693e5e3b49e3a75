"""Scripted noise, and what becomes of thousands of contests in it: the tables of docs/statistics.md, worked out again.

`python -m tests.reports.coverage` prints them. The estimator is that of `reports.stats`, for many series at once;
`test_error_rates` holds the two beside each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import stdtrit

from reports import slow, stats

Floats: TypeAlias = NDArray[Any]
WIDTHS = (0.003, 0.01, 0.03)  # standard deviation of a round's ratio, from narrow to wide
TARGET = MARGIN = 0.01
BURN = 100  # rounds before the first, so that a component is as it will stay


def heavy(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Variance 1: t with 3 degrees of freedom, and 5 % of spikes to either side."""
    x = rng.standard_t(3, shape) / math.sqrt(3.0)
    spikes = (rng.random(shape) < 0.05) * rng.exponential(3.0, shape) * rng.choice((-1.0, 1.0), shape)
    return (x + spikes) / math.sqrt(1 + 0.05 * 18)


def autoregressive(rng: np.random.Generator, r: float, x: Floats) -> Floats:
    """Variance 1, stationary from its first round on. `x`: what moves it, with BURN rounds more."""
    return np.asarray(lfilter([math.sqrt(1 - r * r)], [1.0, -r], x, axis=1))[:, BURN:]


def states(rng: np.random.Generator, dwell: float, shape: tuple[int, int]) -> Floats:
    """Two states of the ratio, each for so many rounds on average."""
    switched = rng.random(shape) < 1 / dwell
    switched[:, 0] = rng.random(shape[0]) < 0.5
    return 1 - 2.0 * (np.cumsum(switched, axis=1) % 2)


def _mixed(share: float, part: Callable[[np.random.Generator, tuple[int, int]], Floats]) -> Any:
    return lambda rng, shape: math.sqrt(1 - share) * heavy(rng, shape) + math.sqrt(share) * part(rng, shape)


def _autoregression(r: float, moved_by: Callable[[np.random.Generator, tuple[int, int]], Floats]) -> Any:
    return lambda rng, shape: autoregressive(rng, r, moved_by(rng, (shape[0], shape[1] + BURN)))


def _normal(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return rng.standard_normal(shape)


def _sine(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    at = np.arange(shape[1]) / 400 + rng.random((shape[0], 1))
    return math.sqrt(2) * np.sin(2 * np.pi * at)


NOISE: dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    "independent": _normal,
    "heavy-tailed": heavy,
    "lag-1 0.3": _autoregression(0.3, heavy),
    "lag-1 0.5": _autoregression(0.5, heavy),
    "drift": _mixed(0.5, _sine),
    "two states, dwell 10": _mixed(0.2, lambda rng, shape: states(rng, 10, shape)),
    "10 % slow": _mixed(0.1, _autoregression(0.95, _normal)),
    "20 % slow": _mixed(0.2, _autoregression(0.95, _normal)),
    "two states, dwell 50": _mixed(0.2, lambda rng, shape: states(rng, 50, shape)),
}
SHORT = ("independent", "heavy-tailed", "lag-1 0.3", "lag-1 0.5")  # noise without memory beyond a few rounds


def noise(kind: str, trials: int, rounds: int, seed: int = 1) -> Floats:
    """trials × rounds, around 0, variance 1."""
    return NOISE[kind](np.random.default_rng((seed, list(NOISE).index(kind), rounds)), (trials, rounds))


def scaled(kind: str, trials: int, width: float) -> Floats:
    """Rounds of whole contests, each width with noise of its own."""
    return width * noise(kind, trials, stats.LOOKS[-1], round(1e6 * width))


@dataclass(frozen=True)
class Estimates:
    """`stats.Estimate` for many series: centers, and degrees and standard errors of each form."""

    center: Floats
    forms: tuple[tuple[Any, Floats], ...]
    lag1: Floats

    def half(self, alpha: float) -> Floats:
        return np.max([stdtrit(n, 1 - alpha / 2) * error for n, error in self.forms], axis=0)


def _winsorized(x: Floats, trimmed: float) -> tuple[Floats, Floats, int]:
    n = x.shape[-1]
    k = max(1, int(n * trimmed)) if trimmed else 0
    ordered = np.sort(x, axis=-1)
    return ordered[..., k : n - k].mean(axis=-1), np.clip(x, ordered[..., [k]], ordered[..., [n - k - 1]]), n - 2 * k


def _lag1(w: Floats) -> tuple[Floats, Floats]:
    """Of the series along the last axis, those of a group in common; and their sum of squares."""
    apart = w - w.mean(axis=-1, keepdims=True)
    over = tuple(range(1, w.ndim))
    square = (apart * apart).sum(axis=over)
    r = (apart[..., 1:] * apart[..., :-1]).sum(axis=over) / square
    return np.clip(r + (1 + 4 * np.maximum(r, 0)) / w.shape[-1], 0, 0.9), square


def estimates(x: Floats, trimmed: float = stats.TRIMMED) -> Estimates:
    """`stats.estimate` of each row."""
    n = x.shape[1]
    center, w, h = _winsorized(x, trimmed)
    r, square = _lag1(w)
    tau = (1 + r) / (1 - r)
    count = slow.cosines(n)
    seen = (w - w.mean(axis=1, keepdims=True)) @ slow.basis(n, count).T
    far = np.sqrt((seen * seen).mean(axis=1) / n) * n / h
    near = np.sqrt(square / (h * (h - 1)) * tau)
    return Estimates(center, ((np.maximum(2.0, h / tau - 1), near), (count, far)), r)


def generations(x: Floats, trimmed: float = stats.TRIMMED) -> Estimates:
    """`stats.generations` of trials × generations × rounds."""
    count = x.shape[1]
    centers, w, h = _winsorized(x, trimmed)
    r, square = _lag1(w)
    tau = (1 + r) / (1 - r)
    within = np.sqrt(tau * square / (count * (h - 1)) / h / count)
    spread = np.sqrt(centers.var(axis=1, ddof=1) / count)
    forms = (count - 1, spread), (np.maximum(2.0, count * h / tau - count), within)
    return Estimates(centers.mean(axis=1), forms, r)


@dataclass(frozen=True)
class Ends:
    """Ends of contests, a value for each: rounds, whether the interval holds, its half-width, verdict, wandering."""

    rounds: NDArray[Any]
    holds: NDArray[Any]
    half: Floats
    verdict: NDArray[Any]
    wanders: NDArray[Any]


def contests(x: Floats, truth: float = 0.0, looks: tuple[int, ...] = stats.LOOKS) -> Ends:
    """Each row as a contest whose rounds have these logarithms of ratios, with `micro.measuring.rounds`' looks."""
    trials = len(x)
    ends = Ends(*(np.zeros(trials, kind) for kind in (int, bool, float, "U10", bool)))
    live = np.arange(trials)
    for look in looks:
        found = estimates(x[live, :look] + truth)
        shown, strict = (found.half(a / stats.SHARE) for a in (0.05, 0.01))
        verdict = verdicts(found.center, strict)
        known = (verdict != "unresolved") | (np.sinh(strict) < MARGIN / 4)
        over = known & (np.sinh(shown) <= TARGET) | (look == looks[-1])
        at = live[over]
        ends.rounds[at], ends.half[at], ends.verdict[at] = look, shown[over], verdict[over]
        ends.holds[at] = np.abs(found.center - truth)[over] <= shown[over]
        ends.wanders[at] = [
            any("wanders" in note for note in slow.notes(look, _forms(found, i), float(found.lag1[i])))
            for i in np.flatnonzero(over)
        ]
        live = live[~over]
    return ends


def _forms(found: Estimates, i: int) -> Any:
    (degrees, near), (count, far) = found.forms
    return (float(degrees[i]), float(near[i])), (count, float(far[i]))


def verdicts(center: Floats, strict: Floats, margin: float = MARGIN) -> NDArray[Any]:
    """From the middles and half-widths of 99 % intervals."""
    low, high = np.exp(center - strict), np.exp(center + strict)
    same = np.where((low >= 1 - margin) & (high <= 1 + margin), "same", "unresolved")
    return np.where(low > 1 + margin, "slower", np.where(high < 1 - margin, "faster", same))


def processes(
    count: int, rounds: int, between: float, trials: int, kind: str = "heavy-tailed", seed: int = 1
) -> Floats:
    """Trials × generations × rounds. `between`: standard deviation of a generation, in standard errors of its mean."""
    own = np.random.default_rng((seed, count, rounds, round(10 * between))).standard_normal((trials, count, 1))
    x = noise(kind, trials * count, rounds, seed).reshape(trials, count, rounds)
    return x + between / math.sqrt(rounds) * own


def stopping(trials: int = 2000) -> Iterator[str]:
    """A row for each noise and first look: coverage at the end, that of late ends, and the share said to wander."""
    for kind in NOISE:
        for first in (stats.LOOKS[0], slow.SEEN):
            ended = [contests(scaled(kind, trials, width), 0.0, _from(first)) for width in WIDTHS]
            late = [e.holds[e.rounds >= slow.SEEN] for e in ended]
            cells = [f"{e.holds.mean():.3f}" for e in ended]
            cells += [f"{x.mean():.3f} of {len(x)}" if len(x) else "–" for x in late]
            yield " | ".join((kind, str(first), *cells, *(f"{e.wanders.mean():.3f}" for e in ended)))


def at_the_margin(trials: int = 4000) -> Iterator[str]:
    """A row for each noise and first look: per cent `slower` and `same`, both wrong, where the ratio is 1 + margin."""
    for kind in (*SHORT, "20 % slow"):
        for first in (stats.LOOKS[0], slow.SEEN):
            cells = []
            for width in WIDTHS:
                verdict = contests(scaled(kind, trials, width), math.log1p(MARGIN), _from(first)).verdict
                cells += [f"{100 * (verdict == word).mean():.2f}" for word in ("slower", "same")]
            yield " | ".join((kind, str(first), *cells))


def _from(first: int) -> tuple[int, ...]:
    return stats.LOOKS[stats.LOOKS.index(first) :]


def once(trials: int = 4000) -> Iterator[str]:
    """A row for each noise and number of rounds: coverage of one look, at 95 and 99 %."""
    for kind in NOISE:
        for rounds in (6, 8, 12, 20, 32, 63):
            yield f"{kind} | {rounds} | {_held(estimates(noise(kind, trials, rounds)))}"


def nested(trials: int = 4000) -> Iterator[str]:
    """A row for each number of generations and what they differ by: coverage at 95 and 99 %."""
    for count, rounds in ((3, 8), (3, 20), (3, 60), (5, 8), (5, 20)):
        for kind in ("heavy-tailed", "lag-1 0.3"):
            for between in (0, 1, 1.5, 2, 3):
                held = _held(generations(processes(count, rounds, between, trials, kind)))
                yield f"{count} × {rounds} | {kind} | {between} | {held}"


def _held(found: Estimates) -> str:
    return " | ".join(f"{(np.abs(found.center) <= found.half(a)).mean():.3f}" for a in (0.05, 0.01))


if __name__ == "__main__":
    for table in (stopping, at_the_margin, once, nested):
        print(*table(), "", sep="\n")
