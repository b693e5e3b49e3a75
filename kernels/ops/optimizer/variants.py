"""The step by our own pass, by NumPy's chains, by torch's three implementations; and on a GPU."""

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
    """For NumPy's chain over one tensor after another."""
    if problem.rule == "norm":
        return "the norm is of all tensors: --variant numpy"
    return libraries.few(problem)


def one_by_one(problem: Optimizer) -> str | None:
    """For our pass called from Python."""
    if problem.rule == "norm":
        return "the norm is of all tensors: --variant c"
    return libraries.few(problem)


def chained(problem: Optimizer) -> Work:
    """What a chain of passes moves."""
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
