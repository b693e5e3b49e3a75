"""The step by our own pass, by NumPy's chains, by torch's three implementations; and on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.libs import torch as torch_library
from kernels.ops.optimizer import chains, frameworks, native
from kernels.ops.optimizer.problem import Optimizer
from kernels.problem import Work
from kernels.variant import DEFAULT, Variant


def each(problem: Optimizer) -> str | None:
    """For NumPy's chain over one tensor after another."""
    if problem.rule == "norm":
        return "the norm is of all tensors: --variant numpy"
    return frameworks.few(problem)


def one_by_one(problem: Optimizer) -> str | None:
    """For our pass called from Python."""
    if problem.rule == "norm":
        return "the norm is of all tensors: --variant c"
    return frameworks.few(problem)


def chained(problem: Optimizer) -> Work:
    """What a chain of passes moves."""
    return Work(problem.flops, float(chains.BYTES[problem.rule] * problem.count))


def _torch(how: str, rules: tuple[str, ...]) -> Variant[Optimizer]:
    return Variant(
        f"torch-{how}",
        "cpu",
        "torch",
        frameworks.cpu(how),
        accepts=frameworks.known(rules, how),
        missing=torch_library.missing,
        kernel=torch_library.kernel,
        python=True,
        roles=(DEFAULT, "together"),
    )


NUMPY = partial(Variant[Optimizer], device="cpu", provider="numpy", work=chained, python=True)
VARIANTS: tuple[Variant[Optimizer], ...] = (
    Variant("c", "cpu", "suite", native.whole, roles=(DEFAULT, "together", "traffic")),
    Variant("c-each", "cpu", "suite", native.passes("optimizer_each"), roles=("together",)),
    Variant("ctypes-each", "cpu", "suite", native.from_python, accepts=one_by_one, python=True, roles=("together",)),
    NUMPY("numpy", prepare=chains.numpy_chain(each=False), roles=(DEFAULT, "together")),
    NUMPY("numpy-each", prepare=chains.numpy_chain(each=True), accepts=each, roles=("together",)),
    _torch("loop", frameworks.RULES),
    _torch("foreach", frameworks.RULES),
    _torch("fused", frameworks.FUSED["cpu"]),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
