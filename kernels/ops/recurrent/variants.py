"""Recurrent layers: ours on OpenBLAS in four formulations, loops of Python, and the sequences of libraries; cuDNN."""

from __future__ import annotations

from kernels.libs.torch import TORCH
from kernels.ops.recurrent import gpu, libraries, loops, native, onednn, onnxruntime
from kernels.ops.recurrent.problem import Recurrent
from kernels.provider import NUMPY
from kernels.variant import DEFAULT, Variant, row


def _forward(problem: Recurrent) -> str | None:
    return "requires --want forward" if problem.step else None


def _full(problem: Recurrent) -> str | None:
    return None if problem.lengths == "full" else "computes all steps: --lengths full"


def _packs(problem: Recurrent) -> str | None:
    return native.padded(problem) or libraries.has_cell(problem)


VARIANTS: tuple[Variant[Recurrent], ...] = (
    *native.ROWS,
    *onednn.ROWS,
    row(NUMPY, "numpy-loop", loops.numpy_loop, accepts=_forward),
    row(TORCH, "torch-loop", libraries.by_autograd(libraries.operations), roles=(DEFAULT, "loop")),
    row(TORCH, "torch-compiled", libraries.by_autograd(libraries.compiled), accepts=_full, roles=("compiled",)),
    row(
        TORCH,
        "torch-cells",
        libraries.by_autograd(libraries.cells),
        accepts=libraries.has_cell,
        roles=(DEFAULT, "loop"),
    ),
    row(
        TORCH,
        "torch",
        libraries.by_autograd(libraries.sequence),
        accepts=libraries.has_cell,
        roles=(DEFAULT, "formulation", "loop", "layout", "swap", "lengths"),
    ),
    row(
        TORCH,
        "torch-without-onednn",
        libraries.by_autograd(libraries.without_onednn),
        accepts=libraries.has_cell,
        roles=(),
    ),
    row(
        TORCH,
        "torch-packed",
        libraries.by_autograd(libraries.packed, packed=True),
        accepts=_packs,
        roles=(DEFAULT, "lengths"),
    ),
    *onnxruntime.ROWS,
    *gpu.ROWS,
)
