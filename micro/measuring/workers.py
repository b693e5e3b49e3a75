"""The workers of one contest: batches of rounds in a single worker, or cases in turn in several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial, reduce
from operator import add, or_
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kernels.devices import kind_of
from kernels.errors import KernelError, Unavailable
from micro.planning.contest import ACROSS, VISIT, Case
from micro.worker.client import Died, ask
from micro.worker.messages import Calibrate, Close, ContestCost, Message, Open, R, RoundBatch, RunRounds
from micro.worker.placement import orders
from micro.worker.process import Key, Workers

if TYPE_CHECKING:
    from kernels.problem import Array

N = TypeVar("N", int, float)
FINE = 60e-9  # seconds between two clock readings, a thousandth of VISIT; coarser clocks need ACROSS
CLOCKS = ("sm_megahertz", "sm_megahertz_least", "sm_megahertz_most")  # keys of a device's state


class ContestWorkers:
    """Workers open for one contest; all methods raise Died if a worker dies.

    `culprit`: index of the case that was under way at the last error, negative if none was."""

    def __init__(self, workers: Workers, cases: Sequence[Case], seed: int) -> None:
        self._workers, self.cases, self._seed = workers, tuple(cases), seed
        measured = [workers.key(case) for case in cases if case.role == "measured"]
        self._home = [workers.key(case) if _apart(case) else _home(workers, case, cases) for case in cases]
        self._keys = list(dict.fromkeys(measured))  # one-thread ceilings run in these workers, too
        self._teams = [key for key in dict.fromkeys(self._home) if key not in self._keys]
        # Workers that measure the contest open all its cases, laid out alike; the others open their ceilings only.
        together = [i for i, key in enumerate(self._home) if key in self._keys]
        self._opened = dict.fromkeys(self._keys, together)
        self._opened |= {key: [i for i, home in enumerate(self._home) if home == key] for key in self._teams}
        kinds = {key: kind_of(case.setting.device) for key, case in zip(self._home, cases, strict=True)}
        self._coarse = any(kind.tick > FINE for kind in kinds.values())
        self._sticky = {key for key, kind in kinds.items() if kind.sticky}
        self.culprit = -1

    @property
    def lockstep(self) -> bool:
        return len(self._keys) > 1

    def open(self, patience: float) -> ContestCost:
        calls: dict[int, list[float]] = {}
        for key, opened in self._opened.items():
            cases, mine = tuple(self.cases[i] for i in opened), tuple(self._home[i] == key for i in opened)
            answers = self._ask(key, Open(cases, mine, self._seed), patience)
            calls |= {i: answer for i, answer, at_home in zip(opened, answers, mine, strict=True) if at_home}
        visit = ACROSS if self.lockstep or self._coarse else VISIT
        settled = {
            key: self._ask(key, Calibrate([calls[i] for i in opened], visit), patience)
            for key, opened in self._opened.items()
        }
        homes = [(settled[key], self._opened[key].index(i)) for i, key in enumerate(self._home)]
        return ContestCost(  # each case by its home worker, which alone has launched it
            tuple(cost.launches[at] for cost, at in homes),
            tuple(cost.visits[at] for cost, at in homes),
            max(settled[key].round for key in self._keys) + sum(settled[key].round for key in self._teams),
            max(settled[key].beside for key in self._keys),
            max(settled[key].loop for key in self._keys),
            all(settled[key].queues for key in self._keys),
        )

    def run_rounds(self, first: int, rounds: int, patience: float, canary: bool = True) -> RoundBatch:
        """Run `rounds` rounds from number `first` on, after the canaries.

        Beside a single worker, ceilings of several threads run in their workers after the rounds, so that no case's
        sample follows another worker's sample."""
        if self.lockstep:
            return stack([self._round(first + i, patience, canary=canary and i == 0) for i in range(rounds)])
        total = self._look(self._keys[0], RunRounds(first, rounds, canary=canary), patience)
        for key in self._teams:
            total = _joined(BESIDE, total, self._look(key, RunRounds(first, rounds, canary=False), patience))
        return total

    def _look(self, key: Key, request: RunRounds, patience: float) -> RoundBatch:
        return _widened(self._ask(key, request, patience), self._opened[key], len(self.cases))

    def _round(self, number: int, patience: float, canary: bool) -> RoundBatch:
        """Run each case once, in random order, each in its worker while the others block on their pipes."""
        total: RoundBatch | None = None
        order = orders(self._seed, number, 1, len(self.cases))[0]
        sings = next(case for case in order if self._home[case] in self._keys) if canary else None
        for case in order:
            key = self._home[case]
            batch = self._look(key, RunRounds(number, 1, self._opened[key].index(case), bool(case == sings)), patience)
            if total is None:
                total = batch
                continue
            mine: Callable[[Any, Any], Any] = partial(_at_home, [home == key for home in self._home])
            total = _joined(TURN | {"places": mine, "latest": mine}, total, batch)
        assert total is not None
        return total

    def close(self) -> None:
        for key in self._opened:
            self._ask(key, Close(), 60.0)

    def _ask(self, key: Key, request: Message[R], patience: float) -> R:
        worker = self._workers.get(key)
        try:
            return ask(worker, request, patience)
        except (KeyboardInterrupt, SystemExit):
            self._workers.drop(key)  # its answer is still to come, and would be read as that of the next request
            raise
        except (KernelError, Unavailable) as error:
            running = worker.running()
            self.culprit = self._opened[key][running] if running >= 0 else running
            # A sticky device may repeat an error for every later case in this process.
            if isinstance(error, Died) or (isinstance(error, KernelError) and key in self._sticky):
                self._workers.drop(key)
            raise


def _apart(case: Case) -> bool:
    """Report whether a case runs in the worker of its key: if measured, or a ceiling of several threads.

    No other thread pool may spin in the process of such a ceiling."""
    return case.role == "measured" or case.setting.threads > 1


def _home(workers: Workers, ceiling: Case, cases: Sequence[Case]) -> Key:
    """Return the worker of a one-thread ceiling: a measured case's on its device, with the fewest threads."""
    near = [x for x in cases if x.role == "measured" and x.setting.device == ceiling.setting.device]
    return workers.key(min(near, key=lambda case: case.setting.threads))


def _widened(batch: RoundBatch, columns: Sequence[int], width: int) -> RoundBatch:
    """Extend a worker's rounds to all cases of the contest, with zeros for cases not opened there."""
    import numpy as np

    if len(columns) == width:
        return batch

    def wide(narrow: Array) -> Array:
        widened = np.zeros((len(narrow), width), narrow.dtype)
        widened[:, columns] = narrow
        return widened

    def spread(narrow: Sequence[Any]) -> tuple[Any, ...]:
        by_column = dict(zip(columns, narrow, strict=True)) if narrow else {}
        return tuple(by_column.get(i, 0) for i in range(width)) if by_column else ()

    ways: dict[str, Callable[[Any], Any]] = {
        "samples": wide,
        "places": wide,
        "counts": spread,
        "flags": spread,
        "latest": spread,
    }
    names = {x.name: ways[x.metadata["join"]] for x in fields(batch) if x.metadata["join"] in ways}
    return replace(batch, **{name: widen(vars(batch)[name]) for name, widen in names.items()})


def stack(looks: Sequence[RoundBatch]) -> RoundBatch:
    """Join batches of the same cases, one after another."""
    return reduce(partial(_joined, AFTER), looks)


def _joined(ways: Joins, first: RoundBatch, other: RoundBatch) -> RoundBatch:
    """Join two batches field by field; a field whose way is not in `ways` keeps the first's value."""
    ours, theirs = vars(first), vars(other)
    by_name = {x.name: x.metadata["join"] for x in fields(first)}
    joined = {name: ways[way](ours[name], theirs[name]) for name, way in by_name.items() if way in ways}
    return replace(first, **joined)


def added(first: Sequence[N], second: Sequence[N]) -> tuple[N, ...]:
    return tuple(a + b for a, b in zip(first, second, strict=True))


def _rows(first: Array, later: Array) -> Array:
    import numpy as np

    return np.concatenate([first, later])


def _largest(first: Sequence[N], second: Sequence[N]) -> tuple[N, ...]:
    return tuple(map(max, first, second))


def _at_home(mine: Sequence[bool], first: Any, second: Any) -> Any:
    """Return `second` in the columns of cases at home in its worker, `first` in all others."""
    import numpy as np

    if isinstance(first, tuple):
        return tuple(b if at_home else a for a, b, at_home in zip(first, second, mine, strict=True))
    return np.where(mine, second, first)


def _summed(first: dict[str, float], second: dict[str, float]) -> dict[str, float]:
    return {cause: first.get(cause, 0.0) + second.get(cause, 0.0) for cause in first | second}


def _both(first: dict[str, float], second: dict[str, float]) -> dict[str, float]:
    """Merge states: the later one, with the least and the largest multiprocessor clock."""
    clocks = [x[name] for x in (first, second) for name in CLOCKS if name in x]
    return first | second | (dict(zip(CLOCKS[1:], (min(clocks), max(clocks)), strict=True)) if clocks else {})


Joins: TypeAlias = dict[str, Callable[[Any, Any], Any]]  # functions that join a field, by its way
AFTER: Joins = {  # with later rounds
    "samples": _rows,
    "places": _rows,
    "counts": added,
    "flags": _largest,
    "latest": lambda first, later: later,
    "total": add,
    "union": or_,
    "state": _both,
    "causes": _summed,
}
# With another case's turn in the same round; places and latest values are those of the case's home worker.
TURN: Joins = AFTER | {"samples": add, "state": or_}
# With the same rounds of ceilings of several threads. Meanwhile the first worker's pool may still spin, which is no
# foreign load: all other fields, system counters too, are the first worker's.
BESIDE: Joins = {"samples": add, "places": add, "counts": added, "flags": _largest, "latest": _largest}
