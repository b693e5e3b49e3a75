"""Rows picked, or multiplied out by a one-hot matrix; rows stepped, or the whole table."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.libs import cuda as cuda_library
from kernels.libs import torch as torch_library
from kernels.libs import torch_cuda
from kernels.native import launch
from kernels.ops.gather import libraries
from kernels.ops.gather.problem import EPSILON, RATE, Gather
from kernels.problem import Work
from kernels.variant import DEFAULT, Variant

if TYPE_CHECKING:
    from kernels.problem import Array
    from kernels.setting import Setting

SOURCE = Path(__file__).with_name("gather.c")
POINTER, INT64, FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
MOST = 1 << 28  # elements of a one-hot matrix: a GiB


class Argument(ctypes.Structure):
    """`argument` of gather.c."""

    _fields_ = (
        *((name, POINTER) for name in ("table", "g", "w", "v", "y", "whole", "ids")),
        *((name, INT64) for name in ("rows", "width", "batch")),
        *((name, FLOAT) for name in ("rate", "epsilon")),
    )


def own(form: str) -> Callable[[Gather, Any, Setting], Bind]:
    """`lookup`, or a step of the `rows`, or of all the table (`dense`)."""

    def prepare(problem: Gather, device: Any, setting: Setting) -> Bind:
        if setting.threads != 1:
            raise Unavailable("this kernel runs on one thread: --threads 1")
        function = build.address(SOURCE, f"gather_{form}" + (f"_{problem.rule}" if form != "lookup" else ""))
        names = [operand.name for operand in problem.operands()]
        whole = device.allocate(4 * problem.rows * problem.width) if form == "dense" else None

        def bind(buffers: Sequence[Array]) -> Launch:
            argument = Argument(
                rows=problem.rows,
                width=problem.width,
                batch=problem.batch,
                rate=RATE,
                epsilon=EPSILON,
                whole=whole.ctypes.data if whole is not None else None,
            )
            size = 0 if whole is None else whole.nbytes
            return launch(function, argument, names, buffers, workspace=size, keep=(whole,))

        return bind

    return prepare


def does(what: str, also: Callable[[Gather], str | None] | None = None) -> Callable[[Gather], str | None]:
    """For kernels of one of the two."""

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
    """A product: matrix, table and result."""
    b, r, w = problem.batch, problem.rows, problem.width
    return Work(2.0 * b * r * w, 4.0 * (b * r + r * w + b * w))


def spread(problem: Gather) -> Work:
    """A gradient of the table's size written, filled and read, and every row with its state read and written."""
    share, each = problem.rows / problem.batch, 16.0 + 8.0 * problem.squares
    return Work(problem.flops * share, 8.0 * (problem.batch + problem.named) + each * problem.rows * problem.width)


LOOKUP, HOT, STEP = does("lookup"), does("lookup", _held), does("step")
CUPY: dict[str, Any] = {
    "device": "cuda",
    "provider": "cupy",
    "missing": cuda_library.missing,
    "kernel": cuda_library.kernel,
    "python": True,
}
TORCH: dict[str, Any] = {
    "device": "cpu",
    "provider": "torch",
    "missing": torch_library.missing,
    "kernel": torch_library.kernel,
    "python": True,
}
TORCH_CUDA = TORCH | {"device": "cuda", "missing": torch_cuda.missing, "kernel": torch_cuda.kernel}
NUMPY: dict[str, Any] = {"device": "cpu", "provider": "numpy", "python": True}
VARIANTS: tuple[Variant[Gather], ...] = (
    Variant("c", "cpu", "suite", own("lookup"), accepts=LOOKUP, roles=(DEFAULT, "shuffle")),
    Variant("numpy", prepare=libraries.taken, accepts=LOOKUP, **NUMPY, roles=(DEFAULT, "shuffle")),
    Variant("torch", prepare=libraries.torch_rows(hot=False), accepts=LOOKUP, **TORCH, roles=(DEFAULT, "shuffle")),
    Variant("one-hot", prepare=libraries.multiplied, accepts=HOT, work=multiplied, constant=("ids",), **NUMPY),
    Variant(
        "torch-one-hot",
        prepare=libraries.torch_rows(hot=True),
        accepts=HOT,
        work=multiplied,
        constant=("ids",),
        **TORCH,
    ),
    Variant("c-rows", "cpu", "suite", own("rows"), accepts=STEP, roles=("step",)),
    Variant("c-dense", "cpu", "suite", own("dense"), accepts=STEP, work=spread, roles=("step",)),
    Variant("numpy-rows", prepare=libraries.stepped(dense=False), accepts=STEP, **NUMPY, roles=("step",)),
    Variant("numpy-dense", prepare=libraries.stepped(dense=True), accepts=STEP, work=spread, **NUMPY, roles=("step",)),
    Variant("cupy", prepare=libraries.taken, accepts=LOOKUP, **CUPY, roles=(DEFAULT, "shuffle")),
    Variant(
        "torch-cuda", prepare=libraries.torch_rows(hot=False), accepts=LOOKUP, **TORCH_CUDA, roles=(DEFAULT, "shuffle")
    ),
    Variant("cupy-one-hot", prepare=libraries.multiplied, accepts=HOT, work=multiplied, constant=("ids",), **CUPY),
    Variant(
        "torch-cuda-one-hot",
        prepare=libraries.torch_rows(hot=True),
        accepts=HOT,
        work=multiplied,
        constant=("ids",),
        **TORCH_CUDA,
    ),
    Variant("cupy-rows", prepare=libraries.stepped(dense=False), accepts=STEP, **CUPY, roles=("step",)),
    Variant("cupy-dense", prepare=libraries.stepped(dense=True), accepts=STEP, work=spread, **CUPY, roles=("step",)),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
