"""One kernel, compiled for each instruction set, and its like for a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build, grid
from kernels.launch import Bind, Launch
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


def prepare(problem: Fma, device: object, setting: object) -> Bind:
    function = build.address(SOURCE, f"fma_chains{problem.chains}", ISA[problem.isa][1])

    def bind(buffers: Sequence[Array]) -> Launch:
        return launch(function, Argument(steps=problem.steps), ("d", "x"), buffers)

    return bind


def accepts(problem: Fma) -> str | None:
    from kernels.devices.cpu import instruction_sets

    return None if problem.isa in instruction_sets() else f"this processor has no {problem.isa}"


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
