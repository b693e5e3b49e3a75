"""The suite's C kernels, compiled for a setting's instruction set and divided among OpenMP's threads."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels import build
from kernels.errors import Unavailable
from kernels.isa import BITS, MARCH
from kernels.launch import Launch
from kernels.native import launch
from kernels.problem import Array
from kernels.setting import Setting

WIDEST = {"zmm": 512, "ymm": 256, "xmm": 128}  # bits


@functools.cache
def widest(path: Path) -> int | None:
    """Return the bits of the widest vector register in a shared object; None without any or objdump."""
    import shutil
    import subprocess

    if (tool := shutil.which("objdump")) is None:
        return None
    code = subprocess.run([tool, "-d", "--no-show-raw-insn", str(path)], capture_output=True, text=True, check=False)
    named = set(re.findall(r"%([xyz]mm)\d", code.stdout))
    return max((WIDEST[name] for name in named), default=None)


SOURCE = Path(__file__).with_name("divided.c")
OPENMP = ("-fopenmp",)
POINTER, INT64 = ctypes.c_void_p, ctypes.c_int64
MOST = 512  # bytes of a kernel's structure, as in divided.c
NAMED = {"sse4.2": "sse", "avx": "avx", "avx2": "avx2", "avx512": "avx512"}  # --isa's names, and instruction_sets()'s


class Moved(ctypes.Structure):
    """Structure `moved` of divided.c: a pointer field's offset, and the bytes by which it moves."""

    _fields_ = (("offset", INT64), ("stride", INT64))


class Plan(ctypes.Structure):
    """Structure `divided` of divided.c; the prefix keeps its fields apart from the kernel's fields."""

    _fields_ = (
        *((f"divided_{name}", POINTER) for name in ("run", "by_part", "by_thread")),
        *((f"divided_{name}", INT64) for name in ("parts", "own", "threads", "total", "grain", "count", "size")),
    )


@dataclass(frozen=True)
class Axis:
    """The outer axis of a problem, which threads divide."""

    count: str  # field of the kernel's structure that holds the length
    total: int  # the length
    strides: Mapping[str, int]  # bytes by which each pointer moves for one step along the axis
    grain: int = 1  # each thread's share, except the last, is a multiple of it
    apart: Mapping[str, int] = field(default_factory=dict)  # bytes between the threads' private areas, by pointer


def flags(setting: Setting) -> tuple[str, ...]:
    """Return the compiler flags of the requested instruction set. Raises Unavailable."""
    from kernels.devices.cpu import instruction_sets

    if setting.isa == "default":
        return ()
    if setting.isa not in MARCH:
        raise Unavailable(f"--isa {setting.isa} applies only to OpenBLAS: choose from {', '.join(MARCH)}")
    if NAMED[setting.isa] not in instruction_sets():
        raise Unavailable(f"this processor lacks {setting.isa}")
    return MARCH[setting.isa]


def compiled(source: Path, compiler_flags: tuple[str, ...], setting: Setting) -> tuple[str | None, str | None] | None:
    """Return a launch's `kernel`: the compiler's instruction set, and the widest registers that it used.

    None if no instruction set is requested."""
    if setting.isa == "default":
        return None
    bits = widest(build.shared(source, compiler_flags))
    words = f"compiled for {setting.isa}"
    if bits is None:
        return f"{words}, by the compiler's word: its machine code could not be inspected", setting.isa
    there = setting.isa if bits == BITS[setting.isa] else next(name for name, each in BITS.items() if each == bits)
    return f"{words}, {bits}-bit registers in its code", there


def launched(
    function: int,
    argument: ctypes.Structure,
    names: Sequence[str],
    buffers: Sequence[Array],
    setting: Setting,
    axis: Axis,
    keep: tuple[object, ...] = (),
    **more: Any,
) -> Launch:
    """Return the launch of kernels.native.launch, divided among the setting's threads. Raises Unavailable."""
    if setting.threads == 1:
        return launch(function, argument, names, buffers, keep=keep, **more)
    _refuse_fewer(setting.threads)
    plan, pointed = _divided(function, argument, setting.threads, axis)
    run = build.address(SOURCE, "divided_run", OPENMP)
    return launch(run, plan, names, buffers, keep=(*keep, argument, *pointed), **more)


@functools.cache
def _refuse_fewer(threads: int) -> None:
    there = build.load(SOURCE, OPENMP).divided_threads(INT64(threads))
    if there != threads:
        raise Unavailable(f"OpenMP runs {there} threads instead of {threads}")


@functools.cache
def _structure(inner: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """Return a ctypes structure: a plan's fields, then those of `inner`, a kernel's structure."""
    assert ctypes.sizeof(inner) <= MOST
    fields = (*Plan._fields_, *inner._fields_)
    return type(f"Divided{inner.__name__}", (ctypes.Structure,), {"_fields_": fields})


def _divided(
    function: int, argument: ctypes.Structure, threads: int, axis: Axis
) -> tuple[ctypes.Structure, tuple[object, ...]]:
    """Return the plan followed by a copy of `argument`, and the objects that the plan points to."""
    inner = type(argument)
    plan = _structure(inner)()
    by_part, by_thread = (_moved(inner, steps) for steps in (axis.strides, axis.apart))
    values = {
        "run": function,
        "by_part": ctypes.addressof(by_part),
        "by_thread": ctypes.addressof(by_thread),
        "parts": len(axis.strides),
        "own": len(axis.apart),
        "threads": threads,
        "total": axis.total,
        "grain": axis.grain,
        "count": inner.__dict__[axis.count].offset,
        "size": ctypes.sizeof(inner),
    }
    for name, value in values.items():
        setattr(plan, f"divided_{name}", value)
    ctypes.memmove(ctypes.addressof(plan) + ctypes.sizeof(Plan), ctypes.addressof(argument), ctypes.sizeof(inner))
    return plan, (by_part, by_thread)


def _moved(inner: type[ctypes.Structure], steps: Mapping[str, int]) -> ctypes.Array[Moved]:
    return (Moved * len(steps))(*(Moved(inner.__dict__[name].offset, stride) for name, stride in steps.items()))
