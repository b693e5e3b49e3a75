"""The step by our own pass, by NumPy's chains, by torch's three implementations; and on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.libs.torch import TORCH
from kernels.ops.optimizer import chains, frameworks, native
from kernels.ops.optimizer.problem import Optimizer
from kernels.problem import Work
from kernels.provider import SUITE
from kernels.variant import DEFAULT, Variant, row


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
    return row(
        TORCH, f"torch-{how}", frameworks.cpu(how), accepts=frameworks.known(rules, how), roles=(DEFAULT, "together")
    )


NUMPY = partial(Variant[Optimizer], device="cpu", provider="numpy", work=chained, python=True)
VARIANTS: tuple[Variant[Optimizer], ...] = (
    row(SUITE, "c", native.whole, roles=(DEFAULT, "together", "traffic")),
    row(SUITE, "c-each", native.passes("optimizer_each"), roles=("together",)),
    row(SUITE, "ctypes-each", native.from_python, accepts=one_by_one, python=True, roles=("together",)),
    NUMPY("numpy", prepare=chains.numpy_chain(each=False), roles=(DEFAULT, "together")),
    NUMPY("numpy-each", prepare=chains.numpy_chain(each=True), accepts=each, roles=("together",)),
    _torch("loop", frameworks.RULES),
    _torch("foreach", frameworks.RULES),
    _torch("fused", frameworks.FUSED["cpu"]),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
