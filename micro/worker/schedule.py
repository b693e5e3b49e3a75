"""Which visits of a contest are witnesses: random ones, of each case some before any verdict, one in every look, and
more as long as they cost little. A short contest has a few milliseconds for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports import stats

if TYPE_CHECKING:
    import numpy as np

    from micro.worker.timed import Timed

FIRST, EARLY = stats.FEWEST, 4  # no interval is given before so many rounds; of them so many are witnesses of each case
# Of a first look of many rounds, which are short, one visit in so many too, up to a number: what goes wrong in every
# fifth call, from the 60th on, is seen by that in 10 contests of 10 of 64 rounds; by 5 witnesses it was in 4 of 10.
MANY, OFTEN, MOST = 32, 2, 24
OUT_OF_STEP = 1 / 8  # share of visits that have an untimed launch more
SHARE = 0.02  # of the time of the rounds
FREE = 0.004  # seconds that witnesses may take of however short a contest
SHORT = 4  # launches of a visit all of which are looked at


class Schedule:
    """Of the cases of one contest that this worker launches. The draw is not told to the kernels: its generator is
    seeded by the system."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._planned: dict[int, set[int]] = {}
        self._looks: dict[int, int] = {}
        self._first = stats.LOOKS[0]
        self.count = 0
        self.spent = self.timed = 0.0  # seconds of witnesses, and of the rounds without them

    def looks(self, first: int) -> None:
        """The contest is looked at after so many rounds, and whenever they have doubled."""
        self._first = first

    def visits(self, cases: Sequence[int], first: int, rounds: int) -> dict[int, set[int]]:
        """For each case the rounds of `first` … `first + rounds` in which its visit is a witness."""
        chosen = {case: self._fixed(case, first + rounds) & set(range(first, first + rounds)) for case in cases}
        left = [(case, r) for case in cases for r in range(first, first + rounds) if r not in chosen[case]]
        for i in self._rng.permutation(len(left))[: self._more()]:
            case, number = left[int(i)]
            chosen[case].add(number)
        return chosen

    def _fixed(self, case: int, end: int) -> set[int]:
        """Those that are made whatever they cost, up to a round."""
        planned = self._planned.setdefault(case, self._early())
        look = self._looks.setdefault(case, self._first)
        while look < end:
            planned.add(look + int(self._rng.integers(look)))
            look *= 2
        self._looks[case] = look
        return planned

    def _early(self) -> set[int]:
        """Before the first look is over."""
        early = set(self._rng.permutation(FIRST)[:EARLY].tolist())
        often = min(MOST, self._first // OFTEN) if self._first >= MANY else 0
        others = [number for number in self._rng.permutation(self._first).tolist() if number not in early]
        return early | set(others[:often])

    def _more(self) -> int:
        """So many that may be made beside them."""
        if not self.count:
            return 0
        left = max(FREE, SHARE * self.timed) - self.spent
        return max(0, int(left * self.count / max(self.spent, 1e-9)))

    def launches(self, count: int) -> list[int]:
        """Which of a visit's launches are looked at."""
        return list(range(count)) if count <= SHORT else [int(self._rng.integers(count))]


def out_of_step(entries: Sequence[Timed], which: Sequence[int]) -> list[int]:
    """Untimed launches beyond a case's own, by visit, at random: else a kernel that is wrong in every fifth call would
    be so in no timed one, where a visit has five."""
    import numpy as np

    drawn = np.random.default_rng().random(len(which)) < OUT_OF_STEP
    return [int(more and entries[case].warm > 0) for case, more in zip(which, drawn, strict=True)]
