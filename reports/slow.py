"""Noise that changes slowly compared with a round: how much of it a series of rounds can show.

A slow component that is small beside the noise of single rounds may decide their mean. Lag-1 autocorrelation misses
it; projections on the lowest-frequency cosines show it, if the series spans the time that it takes to change."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEEN = 512  # rounds; fewer do not show a component that lasts for tens of rounds
WANDERS, SURE = 0.3, 3.0  # lag-1 autocorrelation above which it is reported, if this many standard errors above 0
BLIND = "rounds do not see slow change"
CHANCE = 0.025  # of reporting slow variance in rounds that have none


def cosines(rounds: int) -> int:
    """Return the number of cosines that estimate the slow noise of so many rounds, found by simulation.

    Few enough that all are slow, enough that chance does not widen every interval by half."""
    return 2 if rounds < 16 else 4 if rounds < 64 else 5


@functools.lru_cache(maxsize=64)
def basis(rounds: int, count: int) -> NDArray[Any]:
    """Return the lowest-frequency cosines, each of norm 1, as an array of shape (count, rounds)."""
    import numpy as np

    at = np.pi * (np.arange(rounds) + 0.5) / rounds
    basis: NDArray[Any] = np.cos(np.outer(np.arange(1, count + 1), at)) * math.sqrt(2 / rounds)
    return basis


def error(x: NDArray[Any], count: int) -> float:
    """Estimate the standard error of the mean of x from its projections on the lowest-frequency cosines.

    Equal weights; `count` degrees of freedom (Müller 2004, Lazarus, Lewis, Stock and Watson 2018)."""
    seen = basis(len(x), count) @ (x - x.mean())
    return math.sqrt(float(seen @ seen) / count / len(x))


def notes(rounds: int, forms: tuple[tuple[float, float], ...], lag1: float) -> tuple[str, ...]:
    """Return remarks on slow change. `forms`: degrees and standard error, by lag-1 and by cosines."""
    from scipy.special import fdtri

    (_, near), (count, far) = forms
    if lag1 > WANDERS and lag1 * math.sqrt(rounds) > SURE:
        wandering = f"the ratio itself wanders: lag-1 autocorrelation {lag1:.2f}"
    elif far**2 > near**2 * float(fdtri(count, rounds, 1 - CHANCE)):
        wandering = f"the ratio itself wanders slowly: its error is {far / near:.1f} times what neighboring rounds show"
    else:
        wandering = ""
    blind = f"{rounds} {BLIND}" if rounds < SEEN else ""
    return tuple(filter(None, (wandering, blind)))
