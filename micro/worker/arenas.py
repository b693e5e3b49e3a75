"""The memory in which the operands of a contest lie, and where in it in each round."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from kernels.dtypes import MAGNITUDES, STORED, stored_as
from kernels.errors import NoRoom
from micro.worker import placement
from reports import units

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.problem import Array, Operand, Problem

ROOM = 8 << 20  # bytes of play for placements, at least

Arena: TypeAlias = tuple[str, str, str]
INDICES, SQUARES = "indices", "squares"
LEAST = 2 * ROOM  # bytes of each common one: small contests, one after another, lie in the same pages
COMMON: tuple[Arena, ...] = (
    ("in", "fp32", "normal"),
    ("out", "fp32", "normal"),
)  # there always are these: canaries lie in them


@dataclass(frozen=True)
class Placed:
    """An operand of an entry: its problem, its bytes in all, whose it is, and what it is drawn from."""

    problem: Problem
    operand: Operand
    nbytes: int
    owner: str
    data: str = "normal"

    @property
    def arena(self) -> Arena:
        return arena(self.operand, self.data)


def arena(operand: Operand, data: str) -> Arena:
    """Inputs lie apart from outputs, and each element type and kind of data in an arena of its own. So do indices,
    and other values that are the problem's own; and what is written and never negative, of any data: what lay at its
    place in an earlier round must have been so too."""
    if operand.below or operand.drawn_by_index:
        return INDICES, operand.dtype, INDICES
    if operand.nonnegative and data in ("normal", "integers"):
        data = MAGNITUDES
    written = SQUARES if operand.nonnegative else "out"
    return "in" if operand.role == "in" else written, stored_as(STORED[operand.dtype]), data


def together(problems: Iterable[Problem]) -> dict[Arena, int]:
    """Bytes of each arena that hold the largest operand that any of these has there: each lies at its start."""
    nbytes: dict[Arena, int] = {}
    for operand in (x for problem in problems for x in problem.operands()):
        where = arena(operand, "normal")
        nbytes[where] = max(nbytes.get(where, 0), operand.nbytes)
    return nbytes


class Arenas:
    """Blocks of one device; they grow from contest to contest and are filled once each."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._blocks: dict[Arena, Any] = {}
        self._placed: list[Placed] = []
        self._space: dict[Arena, int] = {}

    def lay_out(self, placed: Sequence[Placed], room: int | None, least: Mapping[Arena, int]) -> None:
        """Room for all of them; `room` bytes of play, None: as much as they take. `least` bytes of an arena in any
        case. Raises NoRoom where the device has not so much."""
        self._placed = list(placed)
        self._space = {}
        unit = self._device.kind.alignment
        for where in dict.fromkeys([*COMMON, *(x.arena for x in placed)]):
            need = sum(placement.lines(x.nbytes, unit) * unit for x in placed if x.arena == where)
            play = 0 if where[0] == INDICES else max(need, ROOM) if room is None else room
            self._space[where] = need + play
            self._reserve(where, max(self._space[where], LEAST if where in COMMON else 0, least.get(where, 0)))
            if where[0] == INDICES:
                self._write_indices(where)

    def _reserve(self, where: Arena, nbytes: int) -> None:
        if where in self._blocks and self._blocks[where].nbytes >= nbytes:
            return
        self._blocks.pop(where, None)
        free = self._device.limits().memory
        if nbytes > free:
            raise NoRoom(
                f"operands of the whole contest take {units.binary(nbytes)}, {units.binary(free)} are free: "
                "take smaller sizes or fewer cases"
            )
        self._blocks[where] = self._device.allocate(nbytes)
        self._fill(where)

    def _fill(self, where: Arena) -> None:
        if where[0] != INDICES:
            self._device.scatter(self._blocks[where], len(where[0]), *where[1:])

    def sums(self) -> dict[Arena, int]:
        """Of each arena that is only read, one of all its bytes: another one when a kernel has written there."""
        return {where: zlib.crc32(block) for where, block in self._blocks.items() if where[0] in ("in", INDICES)}

    def fill_again(self) -> None:
        """What they held before anything was timed."""
        for where in self._blocks:
            self._fill(where)
            if where[0] == INDICES:
                self._write_indices(where)

    def _write_indices(self, where: Arena) -> None:
        """Each operand's, once: they lie where they are in every round, as random numbers would point anywhere."""
        import numpy as np

        placed = [x for x in self._placed if x.arena == where]
        places = placement.fixed([x.nbytes for x in placed], 1, self._device.kind.alignment)[0]
        for item, place in zip(placed, places, strict=True):
            values = item.problem.indices(item.operand, np.random.default_rng(0))
            self._device.put(self._device.view(self._blocks[where], int(place), item.operand), values)
            if item.nbytes > item.operand.nbytes:  # cold ones lie there many times, in memory that NumPy writes
                copies = self._blocks[where][int(place) : int(place) + item.nbytes].reshape(-1, item.operand.nbytes)
                copies[1:] = copies[0]

    def draw(self, seed: int, first: int, rounds: int, single: bool) -> Array:
        """Offsets [rounds, operands]; the same for every worker of a contest. `single`: one for all rounds."""
        import numpy as np

        rng = np.random.default_rng((seed, first))
        offsets = np.empty((rounds, len(self._placed)), np.int64)
        unit = self._device.kind.alignment
        for where, space in self._space.items():
            blocks = [i for i, x in enumerate(self._placed) if x.arena == where]
            if not blocks:
                continue
            sizes = [self._placed[i].nbytes for i in blocks]
            if single or where[0] == INDICES:
                offsets[:, blocks] = placement.fixed(sizes, rounds, unit)
            else:
                offsets[:, blocks] = placement.draw(rng, sizes, space, rounds, unit)
            placement.refuse_shared(offsets[:, blocks], sizes, [self._placed[i].owner for i in blocks])
        return offsets

    def view(self, operand: Operand, offset: int, data: str) -> Any:
        """The operand's array so many bytes into its arena."""
        return self._device.view(self._blocks[arena(operand, data)], offset, operand)

    def address(self, operand: Operand, data: str) -> int:
        """Where its arena begins; of a native device."""
        address: int = self._blocks[arena(operand, data)].ctypes.data
        return address
