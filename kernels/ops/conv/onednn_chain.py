"""The primitives of one of oneDNN's convolutions, bound to memory: what onednn.c executes in a call."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from kernels.libs import onednn

if TYPE_CHECKING:
    from kernels.libs.onednn import Handle, OneDnn
    from kernels.problem import Array

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

    def __init__(self, library: OneDnn, device: Any) -> None:
        self.library, self.device = library, device
        self.operands: list[Handle] = []
        self.steps: list[tuple[Handle, dict[int, Handle]]] = []
        self.blocks: list[Array] = []
        self.kernel: tuple[str | None, str | None] = (None, None)

    def build(self, description: Handle, stored: dict[int, Handle]) -> None:
        """Of a convolution whose operands are `stored` by their roles, in the problem's order."""
        library = self.library
        self.operands = [library.memory(layout.place) for layout in stored.values()]
        roles = tuple(stored)
        arguments, after = {}, []
        for role, operand in zip(roles, self.operands, strict=True):
            layout = library.layout(description, role)
            if library.same(layout, stored[role].place):
                arguments[role] = operand
                continue
            arguments[role] = other = self._room(layout)
            ends = {onednn.SRC: operand, onednn.DST: other}, stored[role].place, layout
            if role == roles[-1]:
                ends = {onednn.SRC: other, onednn.DST: operand}, layout, stored[role].place
                after.append((library.reorder(*ends[1:]), ends[0]))
            else:
                self.steps.append((library.reorder(*ends[1:]), ends[0]))
        reorders = len(self.steps) + len(after)
        self.steps += [(description, arguments), *after]
        self._share_scratch()
        self.kernel = onednn.named(library.version, library.implementation(description), reorders)

    def _room(self, layout: ctypes.c_void_p) -> Handle:
        """Memory of its own."""
        block = self.device.allocate(self.library.size(layout))
        self.blocks.append(block)
        return self.library.memory(layout, block.ctypes.data)

    def _share_scratch(self) -> None:
        layouts = [self.library.layout(description, onednn.SCRATCHPAD) for description, _ in self.steps]
        if most := max(map(self.library.size, layouts)):
            block = self.device.allocate(most)
            self.blocks.append(block)
            for layout, (_, arguments) in zip(layouts, self.steps, strict=True):
                arguments[onednn.SCRATCHPAD] = self.library.memory(layout, block.ctypes.data)

    def structure(self) -> tuple[Convolution, tuple[object, ...]]:
        """What the compiled caller takes, and what must live as long as it."""
        library = self.library
        primitives = [library.primitive(description) for description, _ in self.steps]
        lists = [_arguments(memories) for _, memories in self.steps]
        steps = (Step * len(lists))()
        for step, primitive, arguments in zip(steps, primitives, lists, strict=True):
            step.primitive, step.arguments = primitive.place.value, ctypes.addressof(arguments)
            step.count = len(arguments)
        argument = Convolution(
            memories=(ctypes.c_void_p * 3)(*(memory.place.value for memory in self.operands)),
            move=library.address("memory_set_data_handle"),
            execute=library.address("primitive_execute"),
            wait=library.address("stream_wait"),
            stream=library.stream.place.value,
            steps=ctypes.addressof(steps),
            count=len(steps),
        )
        return argument, (self, primitives, lists, steps)


def _arguments(memories: dict[int, Handle]) -> ctypes.Array[Argument]:
    """Of one primitive."""
    array = (Argument * len(memories))()
    for argument, (role, memory) in zip(array, memories.items(), strict=True):
        argument.role, argument.memory = role, memory.place.value
    return array
