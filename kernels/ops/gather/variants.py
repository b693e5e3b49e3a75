"""Rows looked up or multiplied by a one-hot matrix; updates of the named rows or of the whole table."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.libs.cuda import CUPY
from kernels.libs.torch import TORCH
from kernels.libs.torch_cuda import TORCH_CUDA
from kernels.native import launch, structure
from kernels.ops.gather import libraries
from kernels.ops.gather.problem import EPSILON, RATE, Gather
from kernels.problem import Work
from kernels.provider import NUMPY, SUITE
from kernels.variant import DEFAULT, Variant, row

if TYPE_CHECKING:
    from kernels.problem import Array
    from kernels.setting import Setting

SOURCE = Path(__file__).with_name("gather.c")
POINTER, INT64, FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
MOST = 1 << 28  # elements of a one-hot matrix: a GiB
# C struct `argument` of gather.c
Argument = structure("pointer: table g w v y whole ids", "int64: rows width batch", "float: rate epsilon")


def c_kernel(form: str) -> Callable[[Gather, Any, Setting], Bind]:
    """Return a prepare of our C kernel: "lookup", or a step of the "rows" or of the table ("dense")."""

    def prepare(problem: Gather, device: Any, setting: Setting) -> Bind:
        if setting.threads != 1:
            raise Unavailable("this kernel runs on one thread: --threads 1")
        function = build.address(SOURCE, f"gather_{form}" + (f"_{problem.rule}" if form != "lookup" else ""))
        names = [operand.name for operand in problem.operands()]
        dense_gradient = device.allocate(4 * problem.rows * problem.width) if form == "dense" else None

        def bind(buffers: Sequence[Array]) -> Launch:
            argument = Argument(
                rows=problem.rows,
                width=problem.width,
                batch=problem.batch,
                rate=RATE,
                epsilon=EPSILON,
                whole=dense_gradient.ctypes.data if dense_gradient is not None else None,
            )
            size = 0 if dense_gradient is None else dense_gradient.nbytes
            return launch(function, argument, names, buffers, workspace=size, keep=(dense_gradient,))

        return bind

    return prepare


def does(what: str, also: Callable[[Gather], str | None] | None = None) -> Callable[[Gather], str | None]:
    """Return the condition that `problem.does` is `what`, and that `also` holds."""

    def accepts(problem: Gather) -> str | None:
        if problem.does != what:
            return f"it does the {what} alone: --does {what}"
        return also(problem) if also else None

    return accepts


def _held(problem: Gather) -> str | None:
    if problem.batch * problem.rows > MOST:
        return "its one-hot matrix would take more than a GiB: fewer rows, or a smaller batch"
    return None


def multiplied(problem: Gather) -> Work:
    """Return the work of the one-hot product: matrix, table and result."""
    b, r, w = problem.batch, problem.rows, problem.width
    return Work(2.0 * b * r * w, 4.0 * (b * r + r * w + b * w))


def spread(problem: Gather) -> Work:
    """Return the work of a dense step: a gradient written, filled and read; all rows and state updated."""
    share, each = problem.rows / problem.batch, 16.0 + 8.0 * problem.squares
    return Work(problem.flops * share, 8.0 * (problem.batch + problem.named) + each * problem.rows * problem.width)


LOOKUP, HOT, STEP = does("lookup"), does("lookup", _held), does("step")
VARIANTS: tuple[Variant[Gather], ...] = (
    row(SUITE, "c", c_kernel("lookup"), accepts=LOOKUP, roles=(DEFAULT, "shuffle")),
    row(NUMPY, "numpy", libraries.taken, accepts=LOOKUP, roles=(DEFAULT, "shuffle")),
    row(TORCH, "torch", libraries.torch_rows(hot=False), accepts=LOOKUP, roles=(DEFAULT, "shuffle")),
    row(NUMPY, "one-hot", libraries.multiplied, accepts=HOT, work=multiplied, constant=("ids",)),
    row(TORCH, "torch-one-hot", libraries.torch_rows(hot=True), accepts=HOT, work=multiplied, constant=("ids",)),
    row(SUITE, "c-rows", c_kernel("rows"), accepts=STEP, roles=("step",)),
    row(SUITE, "c-dense", c_kernel("dense"), accepts=STEP, work=spread, roles=("step",)),
    row(NUMPY, "numpy-rows", libraries.stepped(dense=False), accepts=STEP, roles=("step",)),
    row(NUMPY, "numpy-dense", libraries.stepped(dense=True), accepts=STEP, work=spread, roles=("step",)),
    row(CUPY, "cupy", libraries.taken, accepts=LOOKUP, roles=(DEFAULT, "shuffle")),
    row(TORCH_CUDA, "torch-cuda", libraries.torch_rows(hot=False), accepts=LOOKUP, roles=(DEFAULT, "shuffle")),
    row(CUPY, "cupy-one-hot", libraries.multiplied, accepts=HOT, work=multiplied, constant=("ids",)),
    row(
        TORCH_CUDA,
        "torch-cuda-one-hot",
        libraries.torch_rows(hot=True),
        accepts=HOT,
        work=multiplied,
        constant=("ids",),
    ),
    row(CUPY, "cupy-rows", libraries.stepped(dense=False), accepts=STEP, roles=("step",)),
    row(CUPY, "cupy-dense", libraries.stepped(dense=True), accepts=STEP, work=spread, roles=("step",)),
)
