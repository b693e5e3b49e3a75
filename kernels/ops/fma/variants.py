"""One kernel, compiled for each instruction set, and its like for a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build, grid, team
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch, Setting
from kernels.libs import cuda as cuda_library
from kernels.native import launch
from kernels.ops.fma import cuda
from kernels.ops.fma.problem import ISA, Fma
from kernels.variant import CEILING, Variant

if TYPE_CHECKING:
    from kernels.problem import Array

SOURCE = Path(__file__).with_name("fma.c")


class Argument(ctypes.Structure):
    _fields_ = (("d", ctypes.c_void_p), ("x", ctypes.c_void_p), ("steps", ctypes.c_int64))


class Shared(ctypes.Structure):
    """What fma_part takes."""

    _fields_ = (*team.PLAN, *Argument._fields_)


def prepare(problem: Fma, device: object, setting: Setting) -> Bind:
    flags = ISA[problem.isa][1]
    if problem.processors > 1:
        return _by_several(problem, setting, flags)
    function = build.address(SOURCE, f"fma_chains{problem.chains}", flags)

    def bind(buffers: Sequence[Array]) -> Launch:
        return launch(function, Argument(steps=problem.steps), ("d", "x"), buffers)

    return bind


def _by_several(problem: Fma, setting: Setting, flags: tuple[str, ...]) -> Bind:
    """A thread on each core. Raises Unavailable."""
    if setting.threads != problem.processors:
        raise Unavailable(f"{problem.name} takes {problem.processors} threads: --threads {problem.processors}")
    function, members = build.address(SOURCE, "fma_part", flags), team.gather(problem.processors)

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Shared(function, None, problem.processors, 1, problem.passes, steps=problem.slice)
        return team.shared(members, argument, ("d", "x"), buffers)

    return bind


def accepts(problem: Fma) -> str | None:
    from kernels.devices.cpu import features, instruction_sets

    here = (*instruction_sets(), *features())
    return None if problem.isa in here else f"this processor has no {problem.isa}"


def on_gpu(problem: Fma) -> str | None:
    return None if problem.isa == "cuda" else f"a GPU has no {problem.isa}: --isa cuda"


VARIANTS = (
    Variant("c", "cpu", "suite", prepare, accepts=accepts, roles=(CEILING,)),
    Variant(
        "cuda",
        "cuda",
        "suite",
        accepts=on_gpu,
        missing=cuda_library.missing,
        prepare=grid.prepared(
            cuda.SOURCE, lambda problem, device: cuda.launches(problem, f"fma_chains{problem.chains}")
        ),
        roles=(CEILING,),
    ),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
