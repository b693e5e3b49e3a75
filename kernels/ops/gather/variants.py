"""Lookups by index or by a one-hot product; sparse and dense updates of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernels import build, maths
from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs import openblas, torch_cuda
from kernels.libs import torch as torch_library
from kernels.libs.cuda import CUPY
from kernels.libs.torch import TORCH
from kernels.libs.torch_cuda import TORCH_CUDA
from kernels.native import launch, structure
from kernels.ops.gather.problem import EPSILON, FIRST, RATE, SECOND, Gather
from kernels.problem import Array, Work
from kernels.provider import NUMPY, SUITE
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant, row

SOURCE = Path(__file__).with_name("gather.c")
MOST = 1 << 28  # elements of a one-hot matrix: a GiB
# C struct `argument` of gather.c
Argument = structure(
    "pointer: table g w m v y whole dw ids", "int64: rows width batch", "float: rate epsilon first second"
)


def c_kernel(form: str) -> Callable[[Gather, Any, Setting], Bind]:
    """Return a `prepare` of our C kernel: "lookup", "scatter", or a step on the indexed "rows" or all ("dense")."""

    def prepare(problem: Gather, device: Any, setting: Setting) -> Bind:
        maths.alone(setting)
        function = build.address(SOURCE, f"gather_{form}" + (f"_{problem.rule}" if problem.steps else ""))
        names = [operand.name for operand in problem.operands()]
        dense_gradient = device.allocate(4 * problem.rows * problem.width) if form == "dense" else None

        def bind(buffers: Sequence[Array]) -> Launch:
            argument = Argument(
                rows=problem.rows,
                width=problem.width,
                batch=problem.batch,
                rate=RATE,
                epsilon=EPSILON,
                first=FIRST,
                second=SECOND,
                whole=dense_gradient.ctypes.data if dense_gradient is not None else None,
            )
            size = 0 if dense_gradient is None else dense_gradient.nbytes
            return launch(function, argument, names, buffers, workspace=size, keep=(dense_gradient,))

        return bind

    return prepare


PRODUCT = 2  # most kernels of a cuBLAS product: a second kernel adds up parts of a long sum (split-K)
# CuPy's kernels of a step, by rule and density. Each operator is one kernel; `w[ids] -= x` takes, subtracts and
# puts back (three), `w[:] -= x` only subtracts; a dense gradient is first cleared and scattered into.
KERNELS = {
    ("sgd", False): 1 + 3,
    ("sgd", True): 2 + 1 + 1,
    ("adagrad", False): 1 + 3 + 5 + 3,
    ("adagrad", True): 2 + 2 + 4 + 1,
}


def arrays(device: Any, setting: Setting) -> Any:
    """Return CuPy for a GPU, else NumPy, with the setting's number of BLAS threads."""
    if hasattr(device, "cp"):
        return device.cp
    openblas.load("numpy").use(setting.threads)
    return np


def one_hot(problem: Gather, xp: Any) -> Any:
    """Return a batch × rows matrix of zeros with a single 1 in each row."""
    matrix = xp.zeros((problem.batch, problem.rows), "f4")
    matrix[xp.arange(problem.batch), xp.asarray(problem.ids())] = 1
    return matrix


def taken(problem: Gather, device: Any, setting: Setting) -> Bind:
    """Prepare NumPy's or CuPy's `take` into preallocated memory."""
    xp = arrays(device, setting)
    # NumPy copies twice in its default mode, which checks indices; CuPy's `take` has no mode.
    more = {} if hasattr(device, "cp") else {"mode": "clip"}

    def bind(buffers: Sequence[Any]) -> Launch:
        ids, y, table = buffers
        return Launch(lambda: xp.take(table, ids, axis=0, out=y, **more), kernels=1)

    return bind


def multiply(problem: Gather, device: Any, setting: Setting) -> Bind:
    """Prepare the product of a precomputed one-hot matrix and the table."""
    xp = arrays(device, setting)
    hot = one_hot(problem, xp)
    product = PRODUCT if problem.named > 1 else 4  # for a scalar result CuPy multiplies elements, sums by CUB, copies

    def bind(buffers: Sequence[Any]) -> Launch:
        _, y, table = buffers
        return Launch(lambda: xp.matmul(hot, table, out=y), workspace=hot.nbytes, kernels=product)

    return bind


def stepped(dense: bool) -> Callable[[Gather, Any, Setting], Bind]:
    """Return a `prepare` of the update of the indexed rows, or, if `dense`, of all rows.

    The dense update first scatters the gradient into an array of the table's size.
    """

    def prepare(problem: Gather, device: Any, setting: Setting) -> Bind:
        xp = arrays(device, setting)
        dense_gradient = xp.empty((problem.rows, problem.width), "f4") if dense else None

        def bind(buffers: Sequence[Any]) -> Launch:
            ids, g, w, *state = buffers

            def call() -> None:
                if dense_gradient is None:
                    step(g, ids)
                    return
                dense_gradient.fill(0)
                dense_gradient[ids] = g
                step(dense_gradient, slice(None))

            def step(gradient: Any, where: Any) -> None:
                if problem.rule == "sgd":
                    w[where] -= RATE * gradient
                    return
                (v,) = state
                v[where] += gradient * gradient
                w[where] -= RATE * gradient / (xp.sqrt(v[where]) + EPSILON)

            size = 0 if dense_gradient is None else dense_gradient.nbytes
            return Launch(call, workspace=size, kernels=KERNELS[problem.rule, dense])

        return bind

    return prepare


def torch_rows(hot: bool) -> Callable[[Gather, Any, Setting], Bind]:
    """Return a `prepare` of `index_select`, or, if `hot`, of the product with a one-hot matrix.

    On a GPU each call disables TF32, which would round the rows.
    """

    def prepare(problem: Gather, device: Any, setting: Setting) -> Bind:
        on_gpu = hasattr(device, "cp")
        torch = torch_cuda.load(device) if on_gpu else torch_library.on_threads(setting.threads)
        tensor = torch_cuda.tensor if on_gpu else torch_library.tensor
        matrix: Any = torch.from_numpy(one_hot(problem, np)) if hot else None
        matrix = matrix.to(device.name) if hot and on_gpu else matrix
        strict = torch_cuda.arithmetic(torch) if on_gpu else None

        def bind(buffers: Sequence[Any]) -> Launch:
            ids, y, table = (tensor(torch, x) for x in buffers)

            def call(keep: object = buffers) -> None:
                if not hot:
                    torch.index_select(table, 0, ids, out=y)
                    return
                if strict is not None:
                    strict()
                torch.mm(matrix, table, out=y)

            return Launch(call, workspace=matrix.nbytes if hot else 0, kernels=PRODUCT if hot else 1)

        return bind

    return prepare


def added(problem: Gather, device: Any, setting: Setting) -> Bind:
    """Prepare NumPy's unbuffered `add.at` into zeros."""
    maths.alone(setting)

    def bind(buffers: Sequence[Any]) -> Launch:
        ids, g, dw = buffers

        def call() -> None:
            dw.fill(0)
            np.add.at(dw, ids, g)

        return Launch(call)

    return bind


def added_by_product(problem: Gather, device: Any, setting: Setting) -> Bind:
    """Prepare the product of a precomputed, transposed one-hot matrix and the gradients, by NumPy."""
    xp = arrays(device, setting)
    hot = one_hot(problem, xp)

    def bind(buffers: Sequence[Any]) -> Launch:
        _, g, dw = buffers
        return Launch(lambda: xp.matmul(hot.T, g, out=dw), workspace=hot.nbytes, kernels=PRODUCT)

    return bind


def torch_added(how: str) -> Callable[[Gather, Any, Setting], Bind]:
    """Return a `prepare` of PyTorch's index_add_ or embedding's backward (whose new array is copied)."""

    def prepare(problem: Gather, device: Any, setting: Setting) -> Bind:
        torch = torch_library.on_threads(setting.threads)

        def bind(buffers: Sequence[Any]) -> Launch:
            ids, g, dw = (torch_library.tensor(torch, x) for x in buffers)
            backward = torch.ops.aten.embedding_dense_backward

            def call(keep: object = buffers) -> None:
                if how == "index":
                    dw.zero_().index_add_(0, ids, g)
                else:
                    dw.copy_(backward(g, ids, problem.rows, -1, False))

            return Launch(call)

        return bind

    return prepare


def does(what: str, also: Callable[[Gather], str | None] | None = None) -> Callable[[Gather], str | None]:
    """Return an `accepts` condition: `problem.does` is `what`, and `also` (if given) accepts the problem."""

    def accepts(problem: Gather) -> str | None:
        if problem.does != what:
            return f"supports only the {what}: --does {what}"
        return also(problem) if also else None

    return accepts


def _steps(dense: bool, adam: bool) -> Callable[[Gather], str | None]:
    """Return an `accepts` condition of a row that steps indexed rows or, if `dense`, all; `adam`: has it too."""

    def accepts(problem: Gather) -> str | None:
        if not problem.steps:
            return "supports only a step: --does step"
        if problem.rule == "adam" and not adam:
            return "has no adam: --rule sgd"
        if problem.does == "dense" and not dense:
            return "moves indexed rows only: --does step"
        return "moves all rows: --does dense" if dense and problem.rule == "adam" and problem.does == "step" else None

    return accepts


def _held(problem: Gather) -> str | None:
    if problem.batch * problem.rows > MOST:
        return "its one-hot matrix would exceed 1 GiB: use fewer rows or a smaller batch"
    return None


def multiplied(problem: Gather) -> Work:
    """Return the work of the one-hot product: matrix, table and result, or gradients."""
    b, r, w = problem.batch, problem.rows, problem.width
    return Work(2.0 * b * r * w, 4.0 * (b * r + r * w + b * w))


def spread(problem: Gather) -> Work:
    """Return the work of a dense step: gradient cleared, scattered and read; all rows and state updated."""
    every, each = problem.rows * problem.width, 16.0 + 8.0 * len(problem.state)
    return Work(problem.flops * every / problem.moved, 8.0 * (problem.batch + problem.named) + each * every)


LOOKUP, HOT = does("lookup"), does("lookup", _held)
ROWS, ALL = _steps(dense=False, adam=False), _steps(dense=True, adam=False)
SCATTER, HOT_SCATTER = does("scatter"), does("scatter", _held)
VARIANTS: tuple[Variant[Gather], ...] = (
    row(SUITE, "c", c_kernel("lookup"), accepts=LOOKUP, roles=(DEFAULT, "shuffle")),
    row(NUMPY, "numpy", taken, accepts=LOOKUP, roles=(DEFAULT, "shuffle")),
    row(TORCH, "torch", torch_rows(hot=False), accepts=LOOKUP, roles=(DEFAULT, "shuffle")),
    row(NUMPY, "one-hot", multiply, accepts=HOT, work=multiplied, constant=("ids",)),
    row(TORCH, "torch-one-hot", torch_rows(hot=True), accepts=HOT, work=multiplied, constant=("ids",)),
    row(SUITE, "c-rows", c_kernel("rows"), accepts=_steps(dense=False, adam=True), roles=("step",)),
    row(SUITE, "c-dense", c_kernel("dense"), accepts=_steps(dense=True, adam=True), work=spread, roles=("step",)),
    row(NUMPY, "numpy-rows", stepped(dense=False), accepts=ROWS, roles=("step",)),
    row(NUMPY, "numpy-dense", stepped(dense=True), accepts=ALL, work=spread, roles=("step",)),
    row(SUITE, "c-scatter", c_kernel("scatter"), accepts=SCATTER, roles=("scatter",)),
    row(NUMPY, "numpy-add-at", added, accepts=SCATTER, roles=("scatter",)),
    row(TORCH, "torch-index-add", torch_added("index"), accepts=SCATTER, roles=("scatter",)),
    row(TORCH, "torch-embedding", torch_added("embedding"), accepts=SCATTER, roles=("scatter",)),
    row(
        NUMPY,
        "one-hot-scatter",
        added_by_product,
        accepts=HOT_SCATTER,
        work=multiplied,
        constant=("ids",),
        roles=("scatter",),
    ),
    row(CUPY, "cupy", taken, accepts=LOOKUP, roles=(DEFAULT, "shuffle")),
    row(TORCH_CUDA, "torch-cuda", torch_rows(hot=False), accepts=LOOKUP, roles=(DEFAULT, "shuffle")),
    row(CUPY, "cupy-one-hot", multiply, accepts=HOT, work=multiplied, constant=("ids",)),
    row(TORCH_CUDA, "torch-cuda-one-hot", torch_rows(hot=True), accepts=HOT, work=multiplied, constant=("ids",)),
    row(CUPY, "cupy-rows", stepped(dense=False), accepts=ROWS, roles=("step",)),
    row(CUPY, "cupy-dense", stepped(dense=True), accepts=ALL, work=spread, roles=("step",)),
)
