"""The workers of one contest as one: a whole look in one of them, or turns under a token in several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from kernels.devices import kind_of
from kernels.errors import KernelError, Unavailable
from micro.planning.contest import Case
from micro.planning.protocol import ACROSS, VISIT
from micro.worker.client import Died, ask
from micro.worker.messages import Close, ContestCost, Look, Message, Open, R, RoundBatch, Settle
from micro.worker.placement import orders
from micro.worker.process import Workers

N = TypeVar("N", int, float)
FINE = 60e-9  # seconds between two readings of a clock, a thousandth of VISIT: with more a visit is ACROSS
CLOCKS = ("sm_megahertz", "sm_megahertz_least", "sm_megahertz_most")  # of a device's state


class Crew:
    """Alive for one contest. All methods raise Died when a worker does; `culprit` is then
    the case that was under way, or −1 where none was."""

    def __init__(self, workers: Workers, cases: Sequence[Case], seed: int) -> None:
        self._workers, self.cases, self._seed = workers, tuple(cases), seed
        # A ceiling has no thread pool: it is visited where the first case of its device lives.
        home = {case.setting.device: workers.key(case) for case in reversed(cases) if case.role == "measured"}
        keys = [workers.key(case) if case.role == "measured" else home[case.setting.device] for case in cases]
        self._keys = list(dict.fromkeys(keys))
        kinds = {key: kind_of(case.setting.device) for key, case in zip(keys, cases, strict=True)}
        self._coarse = any(one.tick > FINE for one in kinds.values())
        self._sticky = {key for key, one in kinds.items() if one.sticky}
        self._mine = {key: [k == key for k in keys] for key in self._keys}
        self._home = keys
        self.culprit = -1

    @property
    def lockstep(self) -> bool:
        return len(self._keys) > 1

    def open(self, patience: float) -> ContestCost:
        opened = [self._ask(key, Open(self.cases, tuple(self._mine[key]), self._seed), patience) for key in self._keys]
        calls = [opened[self._keys.index(key)][i] for i, key in enumerate(self._home)]
        visit = ACROSS if self.lockstep or self._coarse else VISIT
        settled = {key: self._ask(key, Settle(calls, visit), patience) for key in self._keys}
        own = list(enumerate(self._home))  # what a worker says of its own cases: only it has launched them
        return ContestCost(
            tuple(settled[key].launches[i] for i, key in own),
            tuple(settled[key].visits[i] for i, key in own),
            max(one.round for one in settled.values()),
            max(one.beside for one in settled.values()),
            max(one.loop for one in settled.values()),
            all(one.queues for one in settled.values()),
        )

    def look(self, first: int, rounds: int, patience: float) -> RoundBatch:
        """Rounds `first` to `first + rounds`."""
        if not self.lockstep:
            return self._ask(self._keys[0], Look(first, rounds), patience)
        return stack([self._round(first + i, patience, canary=i == 0) for i in range(rounds)])

    def _round(self, number: int, patience: float, canary: bool) -> RoundBatch:
        """Every case once, in random order, each in its worker while the others block on their pipes."""
        from dataclasses import replace

        import numpy as np

        total: RoundBatch | None = None
        for case in orders(self._seed, number, 1, len(self.cases))[0]:
            sings = canary and total is None
            one = self._ask(self._home[case], Look(number, 1, int(case), sings), patience)
            if total is None:
                total = one
                continue
            mine = [home == self._home[case] for home in self._home]
            total = replace(
                total,
                wall=total.wall + one.wall,
                cpu=total.cpu + one.cpu,
                lost=total.lost + one.lost,
                places=np.where(mine, one.places, total.places),
                counters=total.counters + one.counters,
                faults=total.faults + one.faults,
                seconds=total.seconds + one.seconds,
                state=total.state | one.state,
                launches=tuple(b if own else a for a, b, own in zip(total.launches, one.launches, mine, strict=True)),
                unheld=tuple(map(max, total.unheld, one.unheld)),
                broken=added(total.broken, one.broken),
                slowed=_summed(total.slowed, one.slowed),
                witnesses=tuple(
                    b if own else a for a, b, own in zip(total.witnesses, one.witnesses, mine, strict=True)
                ),
                witnessing=total.witnessing + one.witnessing,
                waits=added(total.waits, one.waits),
            )
        assert total is not None
        return total

    def close(self) -> None:
        for key in self._keys:
            self._ask(key, Close(), 60.0)

    def _ask(self, key: tuple[object, ...], request: Message[R], patience: float) -> R:
        worker = self._workers.get(key)
        try:
            return ask(worker, request, patience)
        except (KernelError, Unavailable) as error:
            self.culprit = worker.running()
            # What such a device has refused once it may refuse from then on, to whoever comes next in this process.
            if isinstance(error, Died) or (isinstance(error, KernelError) and key in self._sticky):
                self._workers.drop(key)
            raise


def stack(looks: Sequence[RoundBatch]) -> RoundBatch:
    import numpy as np

    whole = looks[0]
    for look in looks[1:]:
        whole = RoundBatch(
            np.concatenate([whole.wall, look.wall]),
            np.concatenate([whole.cpu, look.cpu]),
            np.concatenate([whole.lost, look.lost]),
            np.concatenate([whole.places, look.places]),
            whole.canary | look.canary,
            whole.counters + look.counters,
            whole.faults + look.faults,
            whole.seconds + look.seconds,
            _both(whole.state, look.state),
            look.launches,
            added(whole.broken, look.broken),
            look.unheld,
            _summed(whole.slowed, look.slowed),
            look.witnesses,
            whole.witnessing + look.witnessing,
            added(whole.waits, look.waits),
        )
    return whole


def added(first: Sequence[N], second: Sequence[N]) -> tuple[N, ...]:
    return tuple(a + b for a, b in zip(first, second, strict=True))


def _summed(first: dict[str, float], second: dict[str, float]) -> dict[str, float]:
    return {cause: first.get(cause, 0.0) + second.get(cause, 0.0) for cause in first | second}


def _both(first: dict[str, float], second: dict[str, float]) -> dict[str, float]:
    """The later state, and of the multiprocessors' clock the least and the most that was seen."""
    clocks = [x[name] for x in (first, second) for name in CLOCKS if name in x]
    return first | second | (dict(zip(CLOCKS[1:], (min(clocks), max(clocks)), strict=True)) if clocks else {})
