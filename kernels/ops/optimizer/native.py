"""Bindings of optimizer.c: all tensors in one pass, or one after another, from C or from Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernels import build, maths, openmp
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.native import launch, structure
from kernels.ops.optimizer import problem as rules
from kernels.ops.optimizer.problem import Optimizer
from kernels.problem import Array
from kernels.setting import Setting

SOURCE = Path(__file__).with_name("optimizer.c")
POINTER, INT64 = maths.POINTER, maths.INT64
LINE = 16  # elements of a cache line, which threads do not share
PLACES = ("g", "w", "v", "z")  # struct fields of the operands, in their order: gradient, parameters, state
GAINS = ("unit", "adam")  # rules in which the gradient enters the first moment by 1 − mu
# C struct `argument` of optimizer.c
Argument = structure("pointer: g w v z step", "int64: tensors size", "float: lr mu gain rho rest decay eps limit share")


def signed(problem: Optimizer, setting: Setting) -> None:
    """Raise Unavailable if second moments, whose roots are needed, might be drawn negative."""
    if rules.RULES[problem.rule].squares and setting.data != "uniform":
        raise Unavailable(f"{problem.rule} needs nonnegative second moments: --data uniform")


def gain(problem: Optimizer) -> float:
    return 1 - problem.mu if problem.rule in GAINS else 1.0


def fields(problem: Optimizer, flags: tuple[str, ...] = ()) -> dict[str, Any]:
    kernel = "momentum" if problem.rule == "unit" else problem.rule
    same = ("tensors", "size", "lr", "mu", "rho", "decay", "eps", "limit")
    return {name: getattr(problem, name) for name in same} | {
        "step": build.address(SOURCE, f"step_{kernel}", flags),
        "gain": gain(problem),
        "rest": 1 - problem.rho,
    }


def _elements(problem: Optimizer) -> openmp.Axis:
    """Return the axis over all tensors' elements."""
    return openmp.Axis("size", problem.tensors * problem.size, dict.fromkeys(PLACES, 4), LINE)


def all_tensors(problem: Optimizer, device: object, setting: Setting) -> Bind:
    """Prepare one pass over all tensors, divided among threads unless the rule first needs a global norm."""
    signed(problem, setting)
    if problem.rule == "norm":
        maths.alone(setting)
    flags = openmp.flags(setting)
    function, kernel = build.address(SOURCE, "optimizer_all", flags), openmp.compiled(SOURCE, flags, setting)
    values = fields(problem, flags) | ({"tensors": 1} if setting.threads > 1 else {})

    def bind(buffers: Sequence[Array]) -> Launch:
        names = PLACES[: len(buffers)]
        axis = _elements(problem)
        return openmp.launched(function, Argument(**values), names, buffers, setting, axis, kernel=kernel)

    return bind


def passes(entry: str) -> Callable[[Optimizer, object, Setting], Bind]:
    """Return a `prepare` of the function `entry` of optimizer.c."""

    def prepare(problem: Optimizer, device: object, setting: Setting) -> Bind:
        signed(problem, setting)
        maths.alone(setting)
        function, values = build.address(SOURCE, entry), fields(problem)

        def bind(buffers: Sequence[Array]) -> Launch:
            return launch(function, Argument(**values), PLACES[: len(buffers)], buffers)

        return bind

    return prepare


def from_python(problem: Optimizer, device: object, setting: Setting) -> Bind:
    """Prepare one ctypes call for each tensor, with prepared arguments: the cost of separate launches."""
    signed(problem, setting)
    maths.alone(setting)
    values = fields(problem)
    step = ctypes.CFUNCTYPE(None, POINTER, INT64, INT64)(values["step"])

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Argument(**values)
        for place, x in zip(PLACES, buffers, strict=False):
            setattr(argument, place, x.ctypes.data)
        address, size = ctypes.addressof(argument), INT64(problem.size)
        starts = tuple(INT64(t * problem.size) for t in range(problem.tensors))

        def call(keep: object = (argument, *buffers)) -> None:
            for start in starts:
                step(address, start, size)

        return Launch(call)

    return bind
