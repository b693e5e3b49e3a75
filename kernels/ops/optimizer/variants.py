"""An optimizer's step by our own pass, NumPy's chains and torch's three forms; and on a GPU."""

from __future__ import annotations

from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.torch import TORCH
from kernels.libs.torch_cuda import TORCH_CUDA
from kernels.ops.optimizer import gpu, libraries, native
from kernels.ops.optimizer.problem import Optimizer
from kernels.problem import Work
from kernels.provider import NUMPY, SUITE
from kernels.variant import DEFAULT, Variant, row


def each(problem: Optimizer) -> str | None:
    """Return why NumPy's chain over single tensors cannot run `problem`, or None."""
    if problem.rule == "norm":
        return "the norm is of all tensors: --variant numpy"
    return libraries.few(problem)


def one_by_one(problem: Optimizer) -> str | None:
    """Return why our pass, called from Python, cannot run `problem`, or None."""
    if problem.rule == "norm":
        return "the norm is of all tensors: --variant c"
    return libraries.few(problem)


def chained(problem: Optimizer) -> Work:
    """Return the work of a chain of passes."""
    return Work(problem.flops, float(libraries.BYTES[problem.rule] * problem.count))


TOGETHER = (DEFAULT, "together")
VARIANTS: tuple[Variant[Optimizer], ...] = (
    row(SUITE, "c", native.all_tensors, roles=(*TOGETHER, "traffic")),
    row(SUITE, "c-each", native.passes("optimizer_each"), roles=("together",)),
    row(SUITE, "ctypes-each", native.from_python, accepts=one_by_one, python=True, roles=("together",)),
    row(NUMPY, "numpy", libraries.numpy_chain(each=False), work=chained, roles=TOGETHER),
    row(NUMPY, "numpy-each", libraries.numpy_chain(each=True), accepts=each, work=chained, roles=("together",)),
    *(
        row(TORCH, f"torch-{how}", libraries.cpu(how), accepts=libraries.known(how), roles=TOGETHER)
        for how in libraries.FORMS
    ),
    row(CUDA_SUITE, "cuda", gpu.prepared(each=False), accepts=gpu.written, roles=(*TOGETHER, "traffic")),
    row(CUDA_SUITE, "cuda-each", gpu.prepared(each=True), accepts=gpu.written_for_few, roles=("together",)),
    *(
        row(TORCH_CUDA, f"torch-{how}-cuda", gpu.by_torch(how), accepts=libraries.known(how), roles=TOGETHER)
        for how in libraries.FORMS
    ),
)
