"""Launches of C functions that take one structure."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from kernels.launch import Entry, Launch
from kernels.problem import Array

CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


KINDS = {
    "pointer": ctypes.c_void_p,
    "int64": ctypes.c_int64,
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


def structure(*groups: str) -> type[ctypes.Structure]:
    """Return the class of a C structure, such as `structure("pointer: x y", "int64: count")`."""
    pairs = (group.split(":") for group in groups)
    fields = [(name, KINDS[kind]) for kind, names in pairs for name in names.split()]
    return type("Argument", (ctypes.Structure,), {"_fields_": fields})


def launch(
    function: int,
    argument: ctypes.Structure,
    names: Sequence[str],
    buffers: Sequence[Array],
    *,
    uses: int = 1,
    workspace: int = 0,
    keep: tuple[object, ...] = (),
    kernel: tuple[str | None, str | None] | None = None,
) -> Launch:
    """Return a launch of `function(&argument)`; the argument's fields `names` are the buffers' addresses."""
    for name, buffer in zip(names, buffers, strict=True):
        setattr(argument, name, buffer.ctypes.data)
    slots = tuple(getattr(type(argument), name).offset for name in names)
    call, place = CALL(function), ctypes.addressof(argument)
    kept = (*keep, argument, *buffers)

    def run(keep: object = kept) -> None:
        call(place)

    return Launch(run, uses, workspace, Entry(function, argument, slots, kept), kernel=kernel)
