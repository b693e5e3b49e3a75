"""Schedule of verified samples: random, early in each case, one per batch, and more while cheap.

A short contest has a few milliseconds for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports import stats

if TYPE_CHECKING:
    import numpy as np

    from micro.worker.timed import Timed

FIRST, EARLY = stats.FEWEST, 4  # rounds before any interval, and verified samples of each case among them
# In a first batch of at least MANY rounds one sample in OFTEN is verified too, at most MOST. An error in every fifth
# call, from the 60th on, is detected in 10 of 10 contests of 64 rounds; with 5 verified samples it was in 4 of 10.
MANY, OFTEN, MOST = 32, 2, 24
OUT_OF_STEP = 1 / 8  # share of samples with one more untimed launch
SHARE = 0.02  # of the rounds' time, for verification
FREE = 0.004  # seconds of verification allowed in any contest
SHORT = 4  # launches of a sample, up to which all are verified


class Schedule:
    """Verified samples of the cases that this worker launches.

    The system seeds the generator, so that kernels cannot predict the draw."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._planned: dict[int, set[int]] = {}
        self._looks: dict[int, int] = {}
        self._first = stats.LOOKS[0]
        self.count = 0
        self.spent = self.timed = 0.0  # seconds of verification, and of the rounds without it

    def looks(self, first: int) -> None:
        """Set the size of the first batch; the next ones double the rounds."""
        self._first = first

    def visits(self, cases: Sequence[int], first: int, rounds: int) -> dict[int, set[int]]:
        """Return for each case the rounds from `first` on in which its sample is verified."""
        chosen = {case: self._fixed(case, first + rounds) & set(range(first, first + rounds)) for case in cases}
        left = [(case, r) for case in cases for r in range(first, first + rounds) if r not in chosen[case]]
        for i in self._rng.permutation(len(left))[: self._more()]:
            case, number = left[int(i)]
            chosen[case].add(number)
        return chosen

    def _fixed(self, case: int, end: int) -> set[int]:
        """Return the rounds up to `end` that are verified at any cost."""
        planned = self._planned.setdefault(case, self._early())
        look = self._looks.setdefault(case, self._first)
        while look < end:
            planned.add(look + int(self._rng.integers(look)))
            look *= 2
        self._looks[case] = look
        return planned

    def _early(self) -> set[int]:
        """Draw the rounds of the first batch that are verified."""
        early = set(self._rng.permutation(FIRST)[:EARLY].tolist())
        often = min(MOST, self._first // OFTEN) if self._first >= MANY else 0
        others = [number for number in self._rng.permutation(self._first).tolist() if number not in early]
        return early | set(others[:often])

    def _more(self) -> int:
        """Number of samples that the budget of verification allows beyond the fixed ones."""
        if not self.count:
            return 0
        left = max(FREE, SHARE * self.timed) - self.spent
        return max(0, int(left * self.count / max(self.spent, 1e-9)))

    def launches(self, count: int) -> list[int]:
        """Draw the launches of a sample that are verified."""
        return list(range(count)) if count <= SHORT else [int(self._rng.integers(count))]


def out_of_step(entries: Sequence[Timed], which: Sequence[int]) -> list[int]:
    """Draw untimed launches beyond a case's usual, per sample.

    Otherwise a kernel that is wrong in every fifth call could be right in all timed ones, where a sample has five."""
    import numpy as np

    drawn = np.random.default_rng().random(len(which)) < OUT_OF_STEP
    return [int(more and entries[case].warm > 0) for case, more in zip(which, drawn, strict=True)]
