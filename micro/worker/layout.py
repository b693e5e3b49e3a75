"""Placement of a contest's operands in each round, and launches bound to these placements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from micro.worker import visits
from micro.worker.arenas import Arena, Arenas, Placed
from micro.worker.timed import Timed

if TYPE_CHECKING:
    from kernels.launch import Launch
    from kernels.problem import Array


class Layout:
    """Placement of all operands of a contest; other workers' cases too, so that all workers draw alike.

    `mine`: entries timed here; `least`: least bytes of each arena, for canaries, which lie at its start."""

    def __init__(
        self, arenas: Arenas, entries: Sequence[Timed], mine: Sequence[Timed], least: Mapping[Arena, int], seed: int
    ) -> None:
        self._arenas, self._mine, self._least, self._seed = arenas, tuple(mine), least, seed
        self._placed = [_placed(entry, x) for entry in entries for x in entry.problem.operands()]
        self.owners = [entry for entry in entries for _ in entry.problem.operands()]
        self._single = True
        self._bases: dict[int, Array] = {}  # addresses of the arenas of an entry's operands, by the entry's id
        self._place(0)

    def spread(self) -> None:
        """Switch to a fresh placement in every round, and reserve the slack that it needs."""
        self._single = False
        self._place(None)

    def _place(self, room: int | None) -> None:
        self._arenas.lay_out(self._placed, room, self._least)
        self._bases.clear()
        for entry in self._mine:
            entry.entry = None

    def draw(self, first: int, rounds: int) -> Array:
        """Draw byte offsets [rounds, operands], for rounds `first` on."""
        return self._arenas.draw(self._seed, first, rounds, self._single)

    def fixed(self, entry: Timed) -> Array:
        """Return the offsets of an entry's operands in the placement that is the same in all rounds."""
        return self.of(self._arenas.draw(self._seed, 0, 1, True)[0], entry)

    def of(self, row: Array, entry: Timed) -> Array:
        """Return the offsets of an entry's operands from a row of all operands' offsets."""
        return row[self.columns(entry)]

    def columns(self, entry: Timed) -> list[int]:
        """Return the columns of an entry's operands in the table of offsets."""
        return [i for i, owner in enumerate(self.owners) if owner is entry]

    def bound(self, entry: Timed, offsets: Array, turn: int = 0) -> Launch:
        """Return the entry's launch bound to these offsets, with set number `turn` of cold operands."""
        return entry.bind(self.views(entry, offsets, turn))

    def views(self, entry: Timed, offsets: Array, turn: int = 0) -> list[Any]:
        """Return views of the operands at these offsets, with set number `turn` of cold operands."""
        views = []
        for operand, offset in zip(entry.problem.operands(), offsets, strict=True):
            shift = turn * operand.nbytes if operand.name in entry.cold else 0
            views.append(self._arenas.view(operand, int(offset) + shift, entry.data))
        return views

    def turns(self, entry: Timed) -> list[int]:
        """Return the set of cold operands of each launch of the next sample; [0] if there is one set."""
        if entry.sets == 1:
            return [0]
        turns = [(entry.turn + i) % entry.sets for i in range(entry.launches)]
        entry.turn += entry.launches
        return turns

    def addresses(self, entry: Timed, offsets: Array, turns: Sequence[int], keep: list[Any]) -> Array:
        """Return what the compiled loop writes into an entry's slots: addresses, placement by placement."""
        import numpy as np

        if entry.entry is None:
            entry.launch = self.bound(entry, offsets)
            entry.entry = entry.launch.entry or visits.python_entry(entry.launch)
        assert entry.launch is not None
        if entry.launch.entry is None:
            launches = [self.bound(entry, offsets, turn) for turn in turns]
            keep += launches
            return np.array([id(launch.call) for launch in launches], np.int64)
        if id(entry) not in self._bases:
            starts = [self._arenas.address(x, entry.data) for x in entry.problem.operands()]
            self._bases[id(entry)] = np.array(starts)
        base: Array = self._bases[id(entry)] + offsets
        if entry.sets == 1:
            return base
        operands = entry.problem.operands()
        shifts = [[turn * x.nbytes if x.name in entry.cold else 0 for x in operands] for turn in turns]
        return np.concatenate([base + shift for shift in shifts])


def _placed(entry: Timed, operand: Any) -> Placed:
    nbytes = operand.nbytes * (entry.sets if operand.name in entry.cold else 1)
    owner = f"{entry.problem.name}/variant:{entry.variant.name}#{entry.case}"
    return Placed(entry.problem, operand, nbytes, owner, entry.data)
