"""oneDNN's primitives on operands in a problem's own layouts, with the reorders that its implementations need."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from kernels import build
from kernels.launch import Launch
from kernels.libs import onednn
from kernels.libs.onednn import Handle, OneDnn
from kernels.native import launch, structure
from kernels.problem import Array

SOURCE = Path(__file__).with_name("onednn.c")
Step = structure("pointer: primitive arguments", "int64: count")


class Argument(ctypes.Structure):
    """C struct `argument` of onednn.c."""

    _fields_ = (("role", ctypes.c_int32), ("memory", ctypes.c_void_p))


@dataclass(frozen=True)
class Call:
    """One primitive: its description, and operands by role; `rooms`: memory of its own that calls share by name."""

    description: Handle
    reads: Mapping[int, str]
    writes: Mapping[int, str]
    rooms: Mapping[int, str] = field(default_factory=dict)


class Chain:
    """The primitives of one launch with their memory: reorders, calls, shared scratch."""

    def __init__(self, library: OneDnn, device: Any, stored: Mapping[str, Handle], calls: Sequence[Call]) -> None:
        """Build the chain; `stored`: the operands' layouts by name, in the problem's order."""
        self.library, self.device, self.stored = library, device, stored
        self.blocks: list[Array] = []
        self._operands = {name: library.memory(layout.place) for name, layout in stored.items()}
        self._rooms: dict[str, Handle] = {}
        each = [self._in_order(call) for call in calls]
        steps = [step for parts in each for step in parts]
        self._ends = [0, *accumulate(map(len, each))]  # of each call among all steps
        self._share_scratch(steps)
        names = dict.fromkeys(library.implementation(call.description) for call in calls)
        self.kernel = onednn.named(library.version, ", ".join(names), len(steps) - len(calls))
        self._primitives = [library.primitive(description) for description, _ in steps]
        self._memories = [memories for _, memories in steps]
        self._lists = [_arguments(memories) for memories in self._memories]
        self._steps = (Step * len(steps))()
        for step, primitive, arguments in zip(self._steps, self._primitives, self._lists, strict=True):
            step.primitive, step.arguments = primitive.place.value, ctypes.addressof(arguments)
            step.count = len(arguments)
        self._places = (ctypes.c_void_p * len(stored))(*(memory.place.value for memory in self._operands.values()))

    def bound(self, buffers: Sequence[Array]) -> Launch:
        """Return the launch of all calls on these operands."""
        return self._launch(buffers, 0, self._ends[-1])

    def parts(self, buffers: Sequence[Array]) -> list[Launch]:
        """Return a launch for each call on these operands."""
        return [self._launch(buffers, first, end) for first, end in pairwise(self._ends)]

    def _launch(self, buffers: Sequence[Array], first: int, end: int) -> Launch:
        """Return the launch of some steps."""
        function = build.address(SOURCE, "onednn_chain")
        names = [f"place_{name}" for name in self.stored]
        workspace = sum(block.nbytes for block in self.blocks)
        argument = self._structure(names, first, end)
        return replace(
            launch(function, argument, names, buffers, workspace=workspace, keep=(self,)), kernel=self.kernel
        )

    def _in_order(self, call: Call) -> list[tuple[Handle, dict[int, Handle]]]:
        """Return the steps of a call in order: reorders of inputs, itself, reorders of its results."""
        library = self.library
        before: list[tuple[Handle, dict[int, Handle]]] = []
        behind: list[tuple[Handle, dict[int, Handle]]] = []
        memories: dict[int, Handle] = {}
        for role, name in (*call.reads.items(), *call.writes.items()):
            operand, here, there = self._operands[name], self.stored[name].place, library.layout(call.description, role)
            memories[role] = operand
            if library.same(here, there):
                continue
            memories[role] = room = self._room(there)
            if role in call.writes:
                behind.append((library.reorder(there, here), {onednn.SRC: room, onednn.DST: operand}))
            else:
                before.append((library.reorder(here, there), {onednn.SRC: operand, onednn.DST: room}))
        for role, name in call.rooms.items():
            if name not in self._rooms:
                self._rooms[name] = self._room(library.layout(call.description, role))
            memories[role] = self._rooms[name]
        return [*before, (call.description, memories), *behind]

    def _room(self, layout: ctypes.c_void_p) -> Handle:
        """Allocate memory in a layout, zeros at first, and return its handle."""
        block = self.device.allocate(self.library.size(layout))
        block.view("u1")[...] = 0
        self.blocks.append(block)
        return self.library.memory(layout, block.ctypes.data)

    def _share_scratch(self, steps: Sequence[tuple[Handle, dict[int, Handle]]]) -> None:
        """Give all steps one scratchpad, since they run one after another."""
        layouts = [self.library.layout(description, onednn.SCRATCHPAD) for description, _ in steps]
        if most := max(map(self.library.size, layouts)):
            block = self.device.allocate(most)
            self.blocks.append(block)
            for layout, (_, memories) in zip(layouts, steps, strict=True):
                memories[onednn.SCRATCHPAD] = self.library.memory(layout, block.ctypes.data)

    def _structure(self, names: Sequence[str], first: int, end: int) -> ctypes.Structure:
        """Return a new C structure `chain` of some steps, whose last fields are the operands' addresses."""
        library = self.library
        kind = structure(
            "pointer: memories move execute wait stream steps", "int64: count operands", f"pointer: {' '.join(names)}"
        )
        return kind(
            memories=ctypes.addressof(self._places),
            move=library.address("memory_set_data_handle"),
            execute=library.address("primitive_execute"),
            wait=library.address("stream_wait"),
            stream=library.stream.place.value,
            steps=ctypes.addressof(self._steps) + first * ctypes.sizeof(Step),
            count=end - first,
            operands=len(names),
        )


def _arguments(memories: Mapping[int, Handle]) -> ctypes.Array[Argument]:
    """Return the C array of a primitive's arguments, given its memory by role."""
    array = (Argument * len(memories))()
    for argument, (role, memory) in zip(array, memories.items(), strict=True):
        argument.role, argument.memory = role, memory.place.value
    return array
