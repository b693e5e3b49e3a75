"""How often the 95 % interval holds the truth at the moment a contest stops, on scripted noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reports import stats

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array

WIDTHS = (0.003, 0.01, 0.03)  # standard deviation of a round's ratio, from narrow to wide
PROMISED = {"independent": 0.95, "drifting": 0.95, "lag-1 0.3": 0.94, "lag-1 0.5": 0.94}
TARGET = MARGIN = 0.01


def noise(kind: str, rng: np.random.Generator, rounds: int) -> Array:
    """Logarithms of ratios around 0: heavy tails (t with 3 degrees) and 5 % of spikes to one side.

    Drift is common to both sides of a round, as a clock's is, and so enters only through its change
    between the two visits.
    """
    import numpy as np
    from scipy.signal import lfilter

    x = rng.standard_t(3, rounds) / np.sqrt(3.0)
    spikes = rng.random(rounds) < 0.05
    x = x + spikes * rng.exponential(3.0, rounds) * rng.choice((-1.0, 1.0), rounds)
    if kind.startswith("lag-1"):
        r = float(kind.split()[1])
        x = lfilter([np.sqrt(1 - r * r)], [1.0, -r], x)
    if kind == "drifting":
        phase = np.cumsum(rng.normal(0, 0.3, rounds + 1))
        x = x + np.diff(np.sin(phase / 20))
    return np.asarray(x)


def at_stopping(kind: str, width: float, trials: int, seed: int = 1) -> float:
    """Share of trials whose interval holds the truth when they stop."""
    import numpy as np

    rng = np.random.default_rng((seed, round(width * 1e6)))
    held = 0
    for _ in range(trials):
        x = width * noise(kind, rng, stats.LOOKS[-1])
        for look in stats.LOOKS:
            judgment = stats.judge(x[:look], MARGIN)
            if judgment.settled(TARGET):
                break
        assert judgment.shown is not None
        held += judgment.shown.low <= 1.0 <= judgment.shown.high
    return held / trials


def at_one_look(kind: str, rounds: int, trials: int, seed: int = 1) -> float:
    """Share of trials whose interval from one look at few rounds holds the truth."""
    import numpy as np

    rng = np.random.default_rng((seed, rounds))
    held = 0
    for _ in range(trials):
        shown = stats.judge(WIDTHS[1] * noise(kind, rng, rounds), MARGIN, last_only=True).shown
        assert shown is not None
        held += shown.low <= 1.0 <= shown.high
    return held / trials


def of_generations(
    kind: str, generations: int, rounds: int, between: float, trials: int, seed: int = 1
) -> tuple[float, float]:
    """Shares of trials whose 95 % and 99 % intervals of several generations of processes hold the truth. `between`:
    their own standard deviation, in standard errors of a generation's mean."""
    import numpy as np

    rng, width = np.random.default_rng((seed, generations, rounds)), WIDTHS[1]
    held = [0, 0]
    for _ in range(trials):
        own = between * width / math.sqrt(rounds) * rng.standard_normal(generations)
        groups = [width * noise(kind, rng, rounds) + apart for apart in own]
        judged = stats.nested(groups, MARGIN)
        assert judged.shown is not None and judged.strict is not None
        for i, found in enumerate((judged.shown, judged.strict)):
            held[i] += found.low <= 1.0 <= found.high
    return held[0] / trials, held[1] / trials


def worst(kind: str, trials: int) -> float:
    """The worst of the three widths."""
    return min(at_stopping(kind, width, trials) for width in WIDTHS)
