"""The primitives of one of oneDNN's convolutions, bound to memory: what onednn.c executes in a call."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, TypeAlias

from kernels.libs import onednn

if TYPE_CHECKING:
    from kernels.libs.onednn import Handle, OneDnn
    from kernels.problem import Array

Described: TypeAlias = "tuple[Handle, dict[int, Handle]]"  # a primitive, and the memory of its arguments
NAMES = ("first", "second", "result")


class Argument(ctypes.Structure):
    _fields_ = (("role", ctypes.c_int32), ("memory", ctypes.c_void_p))


class Step(ctypes.Structure):
    _fields_ = (("primitive", ctypes.c_void_p), ("arguments", ctypes.c_void_p), ("count", ctypes.c_int64))


class Convolution(ctypes.Structure):
    """`struct convolution` of onednn.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in NAMES),
        ("memories", ctypes.c_void_p * 3),
        *((name, ctypes.c_void_p) for name in ("move", "execute", "wait", "stream", "steps")),
        ("count", ctypes.c_int64),
    )


class Chain:
    """The primitives of one convolution with their memory: reorders where a layout is not what the implementation
    takes, the convolution itself, scratch that all of them share."""

    def __init__(self, library: OneDnn, device: Any, description: Handle, stored: dict[int, Handle]) -> None:
        """Of a convolution whose operands are `stored` by their roles, in the problem's order."""
        self.library, self.device = library, device
        self.blocks: list[Array] = []
        self._operands = {role: library.memory(layout.place) for role, layout in stored.items()}
        steps = self._in_order(description, stored)
        self._share_scratch(steps)
        self.kernel = onednn.named(library.version, library.implementation(description), len(steps) - 1)
        self._primitives = [library.primitive(description) for description, _ in steps]
        self._memories = [memories for _, memories in steps]
        self._lists = [_arguments(memories) for memories in self._memories]
        self._steps = (Step * len(steps))()
        for step, primitive, arguments in zip(self._steps, self._primitives, self._lists, strict=True):
            step.primitive, step.arguments = primitive.place.value, ctypes.addressof(arguments)
            step.count = len(arguments)

    def _in_order(self, description: Handle, stored: dict[int, Handle]) -> list[Described]:
        """What is read is reordered before the convolution, the result behind it."""
        library = self.library
        before: list[Described] = []
        behind: list[Described] = []
        memories = dict(self._operands)
        *_, result = stored
        for role, operand in self._operands.items():
            here, there = stored[role].place, library.layout(description, role)
            if library.same(here, there):
                continue
            memories[role] = room = self._room(there)
            if role == result:
                behind.append((library.reorder(there, here), {onednn.SRC: room, onednn.DST: operand}))
            else:
                before.append((library.reorder(here, there), {onednn.SRC: operand, onednn.DST: room}))
        return [*before, (description, memories), *behind]

    def _room(self, layout: ctypes.c_void_p) -> Handle:
        """Memory of its own."""
        block = self.device.allocate(self.library.size(layout))
        self.blocks.append(block)
        return self.library.memory(layout, block.ctypes.data)

    def _share_scratch(self, steps: list[Described]) -> None:
        """They run one after another."""
        layouts = [self.library.layout(description, onednn.SCRATCHPAD) for description, _ in steps]
        if most := max(map(self.library.size, layouts)):
            block = self.device.allocate(most)
            self.blocks.append(block)
            for layout, (_, memories) in zip(layouts, steps, strict=True):
                memories[onednn.SCRATCHPAD] = self.library.memory(layout, block.ctypes.data)

    def structure(self) -> Convolution:
        """A fresh one, which this chain must outlive."""
        library = self.library
        return Convolution(
            memories=(ctypes.c_void_p * 3)(*(memory.place.value for memory in self._operands.values())),
            move=library.address("memory_set_data_handle"),
            execute=library.address("primitive_execute"),
            wait=library.address("stream_wait"),
            stream=library.stream.place.value,
            steps=ctypes.addressof(self._steps),
            count=len(self._steps),
        )


def _arguments(memories: dict[int, Handle]) -> ctypes.Array[Argument]:
    """Of one primitive."""
    array = (Argument * len(memories))()
    for argument, (role, memory) in zip(array, memories.items(), strict=True):
        argument.role, argument.memory = role, memory.place.value
    return array
