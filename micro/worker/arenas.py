"""Memory blocks (arenas) for a contest's operands, and the operands' offsets in each round."""

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

ROOM = 8 << 20  # least bytes of slack in an arena, for random placement

Arena: TypeAlias = tuple[str, str, str]
INDICES, SQUARES = "indices", "squares"
LEAST = 2 * ROOM  # least bytes of a common arena, so that successive small contests lie in the same pages
COMMON: tuple[Arena, ...] = (
    ("in", "fp32", "normal"),
    ("out", "fp32", "normal"),
)  # in every contest, as canaries lie in them


@dataclass(frozen=True)
class Placed:
    """An operand to be placed in an arena: its size with all copies, and the entry that owns it."""

    problem: Problem
    operand: Operand
    nbytes: int  # of all copies; a cold operand has several
    owner: str  # name of the operand's entry; operands of two entries must not overlap
    data: str = "normal"  # distribution of the operand's values

    @property
    def arena(self) -> Arena:
        return arena(self.operand, self.data)


def arena(operand: Operand, data: str) -> Arena:
    """Return the key of an operand's arena: (direction, stored type, distribution of values).

    Indices, and other values drawn by the problem, have separate arenas. So have nonnegative outputs: the values that
    an earlier round left at their place must be nonnegative too."""
    if operand.below or operand.drawn_by_index:
        return INDICES, operand.dtype, INDICES
    if operand.nonnegative and data in ("normal", "integers"):
        data = MAGNITUDES
    written = SQUARES if operand.nonnegative else "out"
    return "in" if operand.role == "in" else written, stored_as(STORED[operand.dtype]), data


def together(problems: Iterable[Problem]) -> dict[Arena, int]:
    """Return the bytes of each arena that hold its largest operand, all operands lying at offset 0."""
    nbytes: dict[Arena, int] = {}
    for operand in (x for problem in problems for x in problem.operands()):
        where = arena(operand, "normal")
        nbytes[where] = max(nbytes.get(where, 0), operand.nbytes)
    return nbytes


class Arenas:
    """Memory blocks of one device, one per arena, reallocated only if a contest needs larger ones."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._blocks: dict[Arena, Any] = {}
        self._placed: list[Placed] = []
        self._space: dict[Arena, int] = {}

    def lay_out(self, placed: Sequence[Placed], room: int | None, least: Mapping[Arena, int]) -> None:
        """Reserve space for all operands, and at least `least` bytes of each arena.

        `room`: bytes of slack per arena; None: as many as its operands take, at least ROOM. Raises NoRoom."""
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
                f"operands of the contest need {units.binary(nbytes)}, but {units.binary(free)} are free: "
                "use smaller sizes or fewer cases"
            )
        self._blocks[where] = self._device.allocate(nbytes)
        self._fill(where)

    def _fill(self, where: Arena) -> None:
        if where[0] != INDICES:
            self._device.scatter(self._blocks[where], len(where[0]), *where[1:])

    def sums(self) -> dict[Arena, int]:
        """Return a checksum of each read-only arena, which changes if a kernel writes there."""
        return {where: zlib.crc32(block) for where, block in self._blocks.items() if where[0] in ("in", INDICES)}

    def fill_again(self) -> None:
        """Fill all arenas again with their initial contents."""
        for where in self._blocks:
            self._fill(where)
            if where[0] == INDICES:
                self._write_indices(where)

    def _write_indices(self, where: Arena) -> None:
        """Write index operands to fixed offsets; other bytes of their arena are no valid indices."""
        import numpy as np

        placed = [x for x in self._placed if x.arena == where]
        places = placement.fixed([x.nbytes for x in placed], 1, self._device.kind.alignment)[0]
        for item, place in zip(placed, places, strict=True):
            values = item.problem.indices(item.operand, np.random.default_rng(0))
            self._device.put(self._device.view(self._blocks[where], int(place), item.operand), values)
            if item.nbytes > item.operand.nbytes:  # cold operands have several copies, in host memory
                copies = self._blocks[where][int(place) : int(place) + item.nbytes].reshape(-1, item.operand.nbytes)
                copies[1:] = copies[0]

    def draw(self, seed: int, first: int, rounds: int, single: bool) -> Array:
        """Draw byte offsets [rounds, operands], the same in every worker. `single`: alike in all rounds."""
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
        """Return the operand's array at this offset into its arena."""
        return self._device.view(self._blocks[arena(operand, data)], offset, operand)

    def address(self, operand: Operand, data: str) -> int:
        """Return the start address of the operand's arena, for a device whose memory is the host's."""
        address: int = self._blocks[arena(operand, data)].ctypes.data
        return address
