"""Whose products they are: of a framework's own libraries, by their names and by the functions that samples are in."""

from __future__ import annotations

import re

from macro.changes.base import Step

MKL = ("pytorch", "keras-torch")  # rows whose products are MKL's; the wheels of PyTorch have it inside, on x86-64
OPENBLAS = ("numpy",)
KERNEL = re.compile(
    r"mkl_blas_(?P<set>\w+?)_(s|xs)gemm\w*|(?P<core>sgemm_kernel_\w+|sgemm_\w+kernel\w*)", re.IGNORECASE
)


def is_mkl(step: Step) -> str | None:
    """Why its products are not MKL's."""
    if step.framework.name.partition("~")[0].removesuffix("-compile") not in MKL:
        return f"the products of {step.framework.name} are not MKL's"
    return None


def kernels(symbols: frozenset[str]) -> tuple[str, ...]:
    """The functions of a BLAS among these."""
    return tuple(sorted(x for x in symbols if KERNEL.search(x)))
