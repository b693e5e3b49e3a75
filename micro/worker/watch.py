"""Verified samples of one open contest: scheduled before a batch of rounds, judged after it.

The schedule is random: several early samples of each case, a sample of each later batch, and more within a budget of
time, which is a few milliseconds in a short contest."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeAlias

from kernels.errors import WrongResult
from micro.worker.counters import page_faults
from micro.worker.layout import Layout
from micro.worker.witness import Witness, prepared
from reports import stats

if TYPE_CHECKING:
    import numpy as np

    from kernels.devices.base import Device
    from kernels.problem import Array
    from micro.worker.timed import Timed

FIRST, EARLY = stats.FEWEST, 4  # rounds before any interval, and verified samples of each case among them
# In a first batch of at least MANY rounds one sample in OFTEN is verified too, at most MOST. An error in every fifth
# call, from the 60th on, is detected in 10 of 10 contests of 64 rounds; with 5 verified samples it was in 4 of 10.
MANY, OFTEN, MOST = 32, 2, 24
OUT_OF_STEP = 1 / 8  # share of samples with one more untimed launch
SHARE = 0.02  # of the rounds' time, for verification
FREE = 0.004  # seconds of verification allowed in any contest
SHORT = 4  # most launches of a sample that are all verified
UnderWay: TypeAlias = "Callable[[int], AbstractContextManager[None]]"


class Schedule:
    """Random schedule of the rounds in which a case's sample is verified, within a budget of time.

    The system seeds the generator, so that kernels cannot predict the draw."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._planned: dict[int, set[int]] = {}
        self._looks: dict[int, int] = {}
        self._first = stats.LOOKS[0]
        self.count = 0
        self.spent = self.timed = 0.0  # seconds of verification, and of the rounds without it

    def looks(self, first: int) -> None:
        """Set the size of the first batch; each later batch doubles the rounds."""
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
        """Return a case's rounds that are verified whatever the cost, planned at least up to `end`."""
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
        """Return how many samples the time budget allows to verify beyond the fixed samples."""
        if not self.count:
            return 0
        left = max(FREE, SHARE * self.timed) - self.spent
        return max(0, int(left * self.count / max(self.spent, 1e-9)))

    def launches(self, count: int) -> list[int]:
        """Draw the launches of a sample that are verified."""
        return list(range(count)) if count <= SHORT else [int(self._rng.integers(count))]


def out_of_step(entries: Sequence[Timed], which: Sequence[int]) -> list[int]:
    """Draw how many untimed launches (0 or 1) each sample adds to the usual warm-up.

    Otherwise a kernel that is wrong in every fifth call could err in warm-up only, where samples have five calls."""
    import numpy as np

    drawn = np.random.default_rng().random(len(which)) < OUT_OF_STEP
    return [int(more and entries[case].warm > 0) for case, more in zip(which, drawn, strict=True)]


class Overwritten(Exception):
    """A wrong answer whose inputs have changed or were not finite: `error` may be another case's fault."""

    def __init__(self, error: WrongResult, case: int) -> None:
        self.error, self.case = error, case


class Watch:
    """The verified samples of a contest.

    `seen`: indices of verified cases; `under_way`: context that names the responsible case. `faults` and `seconds`:
    page faults and time of verification so far; `counts`: verified samples by case."""

    def __init__(self, device: Device, layout: Layout, seen: Collection[int], under_way: UnderWay) -> None:
        import numpy as np

        self.device, self.layout, self.seen, self.under_way = device, layout, frozenset(seen), under_way
        self._rng = np.random.default_rng()  # seeded by the system: unpredictable for kernels
        self._schedule = Schedule(self._rng)
        self.faults = 0
        self.counts: dict[int, int] = {}

    @property
    def seconds(self) -> float:
        return self._schedule.spent

    def looks(self, seconds: float) -> None:
        """Set the size of the first batch, for rounds of `seconds` each."""
        self._schedule.looks(stats.looks(seconds)[0])

    def draw(
        self,
        entries: Sequence[Timed],
        which: Sequence[int],
        offsets: Sequence[Array],
        turns: Sequence[Sequence[int]],
        first: int,
    ) -> list[Witness]:
        """Draw the verified samples of a batch; `which`: the entry of each sample, round by round."""
        rounds = len(which) // len(entries)
        chosen = self._schedule.visits([e.case for e in entries if e.case in self.seen], first, rounds)
        witnesses: list[Witness] = []
        with self._paid():
            for v, entry in enumerate(entries[w] for w in which):
                if first + v // len(entries) in chosen.get(entry.case, ()):
                    with self.under_way(entry.case):
                        witnesses += self._visit(v, entry, offsets[v], turns[v])
        return witnesses

    def _visit(self, visit: int, entry: Timed, offsets: Array, turns: Sequence[int]) -> Iterator[Witness]:
        names = [x.name for x in entry.problem.operands()]
        launches = self._schedule.launches(entry.launches) if self.device.kind.compiled else [entry.launches - 1]
        self.counts[entry.case] = self.counts.get(entry.case, 0) + 1
        for launch in launches:
            turn = turns[launch] if len(turns) > 1 else turns[0]
            views = dict(zip(names, self.layout.views(entry, offsets, turn), strict=True))
            changes = bool(self._rng.integers(2))
            yield prepared(self.device, self._rng, entry, views, (visit, launch), changes)

    def judge(self, witnesses: Sequence[Witness], wrong: Callable[[int, WrongResult], None]) -> None:
        """Judge the answers; for the first wrong answer, call `wrong` and raise WrongResult.

        Raises Overwritten instead, without the call, if the inputs of this answer were overwritten."""
        with self._paid():
            for witness in witnesses:
                with self.under_way(witness.entry.case):
                    try:
                        witness.judge()
                    except WrongResult as error:
                        if witness.overwritten:
                            raise Overwritten(error, witness.entry.case) from None
                        wrong(witness.entry.case, error)
                        raise

    def timed(self, seconds: float) -> None:
        """Add a batch's seconds without verification, a share of which is the budget of verification."""
        self._schedule.timed += seconds

    @contextmanager
    def _paid(self) -> Iterator[None]:
        began, faults = time.perf_counter(), page_faults()
        try:
            yield
        finally:
            self._schedule.spent += time.perf_counter() - began
            self._schedule.count = sum(self.counts.values())
            self.faults += page_faults() - faults
