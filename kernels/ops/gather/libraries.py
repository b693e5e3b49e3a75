"""Row lookups and updates by NumPy or CuPy, which share an interface, and by PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kernels.errors import Unavailable
from kernels.launch import Launch
from kernels.libs import openblas, torch_cuda
from kernels.libs import torch as torch_library
from kernels.ops.gather.problem import EPSILON, RATE, Gather

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.setting import Setting

PRODUCT = 2  # kernels of cuBLAS, at most: parts of a long sum are added up by a second
# CuPy's kernels of a step, by rule and whether it is dense. Each operator is one; `w[ids] -= x` takes, subtracts and
# puts back, `w[:] -= x` subtracts alone; a whole gradient is cleared and spread first.
KERNELS = {
    ("sgd", False): 1 + 3,
    ("sgd", True): 2 + 1 + 1,
    ("adagrad", False): 1 + 3 + 5 + 3,
    ("adagrad", True): 2 + 2 + 4 + 1,
}


def arrays(device: Any, setting: Setting) -> Any:
    """Return CuPy on a device that has it, else NumPy with the setting's number of BLAS threads."""
    if hasattr(device, "cp"):
        return device.cp
    import numpy as np

    blas = openblas.load("numpy")
    blas.set_threads(setting.threads)
    if (got := blas.get_threads()) != setting.threads:
        raise Unavailable(f"{blas.name} runs {got} threads where {setting.threads} were asked")
    return np


def one_hot(problem: Gather, xp: Any) -> Any:
    """Return a batch × rows matrix of zeros with a single 1 in each row."""
    matrix = xp.zeros((problem.batch, problem.rows), "f4")
    matrix[xp.arange(problem.batch), xp.asarray(problem.ids())] = 1
    return matrix


def taken(problem: Gather, device: Any, setting: Setting) -> Bind:
    """Prepare `take` into preallocated memory."""
    xp = arrays(device, setting)
    # NumPy copies twice in the mode that checks indices; CuPy has no modes here.
    more = {} if hasattr(device, "cp") else {"mode": "clip"}

    def bind(buffers: Sequence[Any]) -> Launch:
        ids, y, table = buffers
        return Launch(lambda: xp.take(table, ids, axis=0, out=y, **more), kernels=1)

    return bind


def multiplied(problem: Gather, device: Any, setting: Setting) -> Bind:
    """Prepare the product of a one-hot matrix, built beforehand, and the table."""
    xp = arrays(device, setting)
    hot = one_hot(problem, xp)
    product = PRODUCT if problem.named > 1 else 4  # CuPy makes one number by a product of elements, CUB's sum, a copy

    def bind(buffers: Sequence[Any]) -> Launch:
        _, y, table = buffers
        return Launch(lambda: xp.matmul(hot, table, out=y), workspace=hot.nbytes, kernels=product)

    return bind


def stepped(dense: bool) -> Callable[[Gather, Any, Setting], Bind]:
    """Return a prepare of the update of the named rows, or, if `dense`, of the whole table.

    The dense update first spreads the gradient into an array of the table's size.
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
    """Return a prepare of `index_select`, or, if `hot`, of the product with a one-hot matrix.

    On a GPU each call sets single precision: rows that TF32 rounds are no rows of the table.
    """

    def prepare(problem: Gather, device: Any, setting: Setting) -> Bind:
        import numpy as np

        on_gpu = hasattr(device, "cp")
        torch = torch_cuda.load(device) if on_gpu else torch_library.load()
        if not on_gpu:
            torch.set_num_threads(setting.threads)
            torch.set_grad_enabled(False)
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
