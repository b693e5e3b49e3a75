"""Kernels for tensor cores and for a processor's matrix instructions, one per instruction and type."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels import build, grid, team
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.libs.cuda import CUDA_SUITE
from kernels.native import launch, structure
from kernels.nvcc import Geometry, over
from kernels.ops.mma.problem import GPU, Mma
from kernels.problem import Array
from kernels.provider import SUITE
from kernels.setting import Setting
from kernels.variant import CEILING, row

SOURCES = {unit: Path(__file__).with_name(f"{unit}.cu") for unit in ("mma", "wgmma")}
TYPES = ("tf32", "bf16", "fp16")
KERNELS = {unit: tuple(f"{unit}_{dtype}" for dtype in TYPES) for unit in SOURCES}
THREADS = 256  # of a block, one per multiprocessor: eight warps, or two warpgroups
ARCHS = {"mma": "", "wgmma": "sm_90a"}  # no other architecture has wgmma


def kernel(problem: Mma) -> str:
    """Return the name of the CUDA kernel that solves `problem`."""
    return f"{problem.unit}_{problem.dtype}"


def launches(problem: Mma, name: str) -> tuple[Geometry, ...]:
    """Return a launch of one block per multiprocessor."""
    names = [x.name for x in problem.operands()]
    return (over(name, problem.processors, THREADS, names, problem.steps, arch=ARCHS[problem.unit]),)


def prepare(problem: Mma, device: Any, setting: object) -> Bind:
    """Prepare the CUDA kernel. Raises Unavailable for an instruction that the device lacks."""
    if problem.unit == "wgmma" and device.arch != "sm_90":
        raise Unavailable(f"wgmma requires Hopper (sm_90a): {device.name} is {device.arch}")
    names = [x.name for x in problem.operands()]
    return grid.bound(SOURCES[problem.unit], launches(problem, kernel(problem)), names, device)


SOURCE = Path(__file__).with_name("mma.c")
# Compiler flags that enable exactly one of the instructions
FLAGS = {
    "avx512bf16": ("-march=x86-64-v4", "-mavx512bf16"),
    "avx512vnni": ("-march=x86-64-v4", "-mavx512vnni"),
    "avxvnni": ("-march=x86-64-v3", "-mavxvnni"),
    "amxbf16": ("-march=x86-64-v4", "-mamx-tile", "-mamx-bf16"),
    "amxint8": ("-march=x86-64-v4", "-mamx-tile", "-mamx-int8"),
}
PASSES = 16  # times that each of several threads computes the product in a launch
Argument = structure("pointer: a b c", "int64: steps")
Shared = team.planned(Argument)  # arguments of mma_part


def on_core(problem: Mma, device: object, setting: Setting) -> Bind:
    """Prepare the C kernel, with one thread per core. Raises Unavailable."""
    flags = FLAGS[problem.unit]
    if problem.processors == 1:
        function = build.address(SOURCE, "mma", flags)
        return lambda buffers: launch(function, Argument(steps=problem.steps), "abc", buffers)
    if setting.threads != problem.processors:
        raise Unavailable(f"{problem.name} requires {problem.processors} threads: --threads {problem.processors}")
    part, members = build.address(SOURCE, "mma_part", flags), team.gather(problem.processors)

    def bind(buffers: Sequence[Array]) -> Launch:
        plan = Shared(part, None, problem.processors, 1, PASSES, steps=problem.steps)
        return team.shared(members, plan, "abc", buffers, PASSES)

    return bind


def of_core(problem: Mma) -> str | None:
    from kernels.devices.cpu import features

    return None if problem.unit in features() else f"this processor lacks {problem.unit}"


VARIANTS = (
    row(SUITE, "c", on_core, accepts=of_core, roles=(CEILING,)),
    row(
        CUDA_SUITE,
        "cuda",
        prepare,
        accepts=lambda problem: None if problem.unit in GPU else f"a GPU lacks {problem.unit}",
        roles=(CEILING,),
    ),
)
