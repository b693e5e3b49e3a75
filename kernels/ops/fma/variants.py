"""Multiply-adds by one C kernel, compiled for each instruction set, and by its CUDA counterpart."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernels import build, grid, team
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs.cuda import CUDA_SUITE
from kernels.native import launch, structure
from kernels.nvcc import Geometry, over
from kernels.ops.fma.problem import CHAINS, ISA, NOTHING, PEAK, Fma
from kernels.problem import Array
from kernels.provider import SUITE
from kernels.setting import Setting
from kernels.variant import CEILING, row

SOURCE, CUDA_SOURCE = Path(__file__).with_name("fma.c"), Path(__file__).with_name("fma.cu")
KERNELS = (f"fma_chains{CHAINS}",)  # of fma.cu
BURST = 400_000  # untimed steps: about a millisecond, longer than a core needs to change its clock
Argument = structure("pointer: d x", "int64: steps")


class After(ctypes.Structure):
    """C arguments of fma_chains for the timed call, followed by those for the burst before it."""

    _fields_ = (*Argument._fields_, *((f"before_{name}", kind) for name, kind, *_ in Argument._fields_))


Shared = team.planned(Argument)  # arguments of fma_part


def prepare(problem: Fma, device: object, setting: Setting) -> Bind:
    flags = ISA[problem.isa][1]
    if problem.processors > 1:
        return _by_several(problem, setting, flags)
    function = build.address(SOURCE, f"fma_chains{problem.chains}", flags)
    if problem.after != NOTHING:
        return _after(problem, function)

    def bind(buffers: Sequence[Array]) -> Launch:
        return launch(function, Argument(steps=problem.steps), ("d", "x"), buffers)

    return bind


def _after(problem: Fma, function: int) -> Bind:
    """Bind the timed call after an untimed burst of multiply-adds in another instruction set.

    The burst, on separate numbers, replaces the warm-up launches of a sample.
    """
    lanes, flags = ISA[problem.after]
    burst = build.address(SOURCE, f"fma_chains{PEAK[problem.after]}", flags)
    numbers = np.random.default_rng(1).normal(size=(PEAK[problem.after] + 1, lanes)).astype("f4")
    place = numbers.ctypes.data
    before = {"before_d": place, "before_x": place + numbers.strides[0], "before_steps": BURST}

    def bind(buffers: Sequence[Array]) -> Launch:
        base = launch(function, After(steps=problem.steps, **before), ("d", "x"), buffers, keep=(numbers,))
        assert base.entry is not None
        return replace(base, entry=replace(base.entry, single=(burst, After.before_d.offset)))

    return bind


def _by_several(problem: Fma, setting: Setting, flags: tuple[str, ...]) -> Bind:
    """Bind a call by one thread on each core. Raises Unavailable."""
    if setting.threads != problem.processors:
        raise Unavailable(f"{problem.name} requires {problem.processors} threads: --threads {problem.processors}")
    function, members = build.address(SOURCE, "fma_part", flags), team.gather(problem.processors)

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Shared(function, None, problem.processors, 1, problem.passes, steps=problem.slice)
        return team.shared(members, argument, ("d", "x"), buffers)

    return bind


def accepts(problem: Fma) -> str | None:
    from kernels.devices.cpu import features, instruction_sets

    here = (*instruction_sets(), *features(), NOTHING)
    lacking = [name for name in (problem.isa, problem.after) if name not in here]
    return f"this processor lacks {lacking[0]}" if lacking else None


def on_gpu(problem: Fma) -> str | None:
    if problem.after != NOTHING:
        return f"a GPU lacks {problem.after}: --after {NOTHING}"
    if problem.chains != CHAINS:
        return f"requires --chains {CHAINS}"
    return None if problem.isa == "cuda" else f"a GPU lacks {problem.isa}: --isa cuda"


def launches(problem: Fma, name: str) -> tuple[Geometry, ...]:
    """Return a launch of one block per multiprocessor of the problem."""
    return (over(name, problem.processors, ISA["cuda"][0], "dx", problem.steps),)


VARIANTS = (
    row(SUITE, "c", prepare, accepts=accepts, roles=(CEILING,)),
    row(
        CUDA_SUITE,
        "cuda",
        grid.solving(CUDA_SOURCE, launches, lambda problem: KERNELS[0]),
        accepts=on_gpu,
        roles=(CEILING,),
    ),
)
