"""Conditions shared by several variants: each returns why it cannot run a product, or None if it can."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kernels.ops.gemm.problem import Gemm

Accepts: TypeAlias = Callable[[Gemm], str | None]


def typed(*types: str, also: Accepts | None = None) -> Accepts:
    """Return a condition: the element type is one of `types`, and `also`, if given, accepts the problem."""

    def accepts(problem: Gemm) -> str | None:
        if problem.dtype not in types:
            return f"supports only {', '.join(types)}: --dtype {types[0]}"
        return also(problem) if also else None

    return accepts


def plain(problem: Gemm) -> str | None:
    """Return why a call without alpha and beta cannot compute `problem`, or None if it can."""
    if problem.alpha != 1 or problem.beta != 0:
        return "does not support alpha and beta: --alpha 1 --beta 0"
    return None


def up_to(gflop: float, why: str) -> Accepts:
    """Return a condition: a product has at most `gflop` GFLOP, since a slow kernel would take minutes."""

    def accepts(problem: Gemm) -> str | None:
        return f"{why}: limited to {gflop:g} GFLOP" if problem.flops > gflop * 1e9 else None

    return accepts


def transposes(uses: int) -> Accepts:
    """Return a condition: an operand is transposed and, if a copy serves several `uses`, beta is 0."""

    def accepts(problem: Gemm) -> str | None:
        if problem.trans == "nn":
            return "NN has no transposed operand"
        if uses > 1 and problem.beta != 0:
            return "with several uses, each would add to C: --beta 0"
        return None

    return accepts


def column_major(problem: Gemm) -> str:
    """Return the column-major BLAS call of a row-major product: Cᵀ = op(B)ᵀ·op(A)ᵀ, operands swapped."""
    name, dtype = ("sgemm", "") if problem.dtype == "fp32" else ("gemm", f" of {problem.dtype}")
    first, second = problem.trans[1].upper(), problem.trans[0].upper()
    return f"{problem.trans.upper()} = {name}({first},{second}){dtype} m={problem.n} n={problem.m}"


def torch_call(problem: Gemm) -> str:
    """Return PyTorch's column-major BLAS call in float32, or the torch function's name in other types."""
    if problem.dtype == "fp32":
        return column_major(problem)
    name = "torch._int_mm" if problem.dtype == "int8" else "torch.mm"
    return f"{problem.trans.upper()} = {name} of {problem.dtype}"


def numpy_call(problem: Gemm) -> str:
    """Return np.matmul's BLAS call: GEMV for a vector, else GEMM (numpy/_core/src/umath/matmul.c.src)."""
    if problem.m == 1 or problem.n == 1:
        return f"{problem.trans.upper()} = cblas_sgemv"
    return column_major(problem)


def copied(problem: Gemm) -> float:
    """Return the bytes that are read and written to copy the transposed operands."""
    sizes = {x.name: x.nbytes for x in problem.operands()}
    return 2.0 * sum(sizes[name] for name, layout in zip("ab", problem.trans, strict=True) if layout == "t")
