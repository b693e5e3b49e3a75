"""Recurrent layers of recurrent.c: OpenBLAS products in four formulations, and element-wise passes of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernels import maths
from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs import openblas
from kernels.libs.openblas import OPENBLAS
from kernels.native import launch, structure
from kernels.ops.recurrent.problem import GATES, Recurrent
from kernels.problem import Array
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant, row

SOURCE = Path(__file__).with_name("recurrent.c")
CELLS = tuple(GATES)  # in the order of recurrent.c
FORMULATIONS = ("gates", "split", "concatenated", "batched")
OWN = "gates kept both joint below zeros dh dc shifted"  # memory besides the operands
# `problem` of recurrent.c
Argument = structure(
    f"pointer: x w r b dy y dx dw dr db {OWN} lengths sgemm",
    "int64: steps batch inputs hidden count",
    "int32: wide cell formulation once batch_major packed",
)


def prepare(
    problem: Recurrent, device: Any, setting: Setting, formulation: str, once: bool = False, packed: bool = False
) -> Bind:
    """Prepare a formulation.

    `once`: gradients of inputs and weights in one product over all steps; `packed`: a step leaves out sequences that
    have ended, where others compute padding."""
    bind = _prepared(problem, device, setting, (problem.want,), formulation, once, packed)
    return lambda buffers: bind(buffers)[0]


def passes(problem: Recurrent, device: Any, setting: Setting) -> Callable[[Sequence[Array]], list[Launch]]:
    """Prepare a step as two launches, forward and gradients, with the product of all inputs at once."""
    return _prepared(problem, device, setting, ("forward", "gradient"), "batched", once=True, packed=False)


def _prepared(
    problem: Recurrent, device: Any, setting: Setting, parts: Sequence[str], formulation: str, once: bool, packed: bool
) -> Callable[[Sequence[Array]], list[Launch]]:
    """Prepare launches of parts of recurrent.c, which share their memory."""
    blas = openblas.load("numpy")
    blas.use(setting.threads)
    functions = [maths.address(SOURCE, f"recurrent_{part}") for part in parts]
    rooms = {name: device.allocate(4 * max(1, count)) for name, count in _sizes(problem, formulation, once).items()}
    np.copyto(rooms["zeros"].view("f4"), 0)
    fields = {name: room.ctypes.data for name, room in rooms.items()}
    fields |= {"sgemm": blas.sgemm, "wide": blas.wide, "once": once, "batch_major": problem.layout == "ntc"}
    fields |= {"cell": CELLS.index(problem.cell), "formulation": FORMULATIONS.index(formulation)}
    fields |= {name: getattr(problem, name) for name in ("steps", "batch", "inputs", "hidden")}
    fields |= {"count": problem.gates, "packed": packed}
    names = [operand.name for operand in problem.operands()]
    workspace = sum(room.nbytes for room in rooms.values())

    def bind(buffers: Sequence[Array]) -> list[Launch]:
        how = {"workspace": workspace, "keep": (rooms,)}
        return [launch(function, Argument(**fields), names, buffers, **how) for function in functions]

    return bind


def _sizes(problem: Recurrent, formulation: str, once: bool) -> dict[str, int]:
    """Return the elements of each array besides the operands."""
    state, sums = problem.batch * problem.hidden, problem.gates * problem.hidden
    beside = problem.inputs + problem.hidden if formulation == "concatenated" else 0
    return {
        "gates": problem.steps * problem.batch * sums,
        "kept": problem.steps * state,
        "both": problem.batch * beside,
        "joint": sums * beside,
        "below": problem.batch * sums,
        "zeros": state,
        "dh": state,
        "dc": state,
        "shifted": problem.steps * state if once else 0,
    }


def _row(formulation: str, name: str, *roles: str, **how: Any) -> Variant[Recurrent]:
    """Return the row of a formulation; `how`: options of `prepare`, and the row's `accepts`."""
    accepts = how.pop("accepts", lambda problem: None)
    return row(OPENBLAS, name, partial(prepare, formulation=formulation, **how), roles=roles, accepts=accepts)


def padded(problem: Recurrent) -> str | None:
    """Return why sequences cannot be packed, or None if they can."""
    return "requires sequences of several lengths: --lengths sorted or shuffled" if problem.lengths == "full" else None


ROWS: tuple[Variant[Recurrent], ...] = (
    _row("gates", "c-gates", DEFAULT, "formulation", "sweep"),
    _row("split", "c-split", DEFAULT, "formulation", "sweep", "lengths"),
    _row("concatenated", "c-concatenated", DEFAULT, "formulation"),
    _row("batched", "c-batched", DEFAULT, "formulation", "once", "layout", "swap", once=True),
    _row("batched", "c-batched-steps", "formulation", "once"),
    _row("split", "c-packed", DEFAULT, "lengths", packed=True, accepts=padded),
)
