"""Softmax with cross-entropy by the suite's C and CUDA kernels and by libraries."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kernels import grid, maths, openmp
from kernels.libs.cuda import CUDA_SUITE, CUPY
from kernels.libs.numba import NUMBA
from kernels.libs.torch import TORCH
from kernels.libs.torch_cuda import TORCH_CUDA
from kernels.native import structure
from kernels.ops.activation.libraries import numba_kernel, numpy_kernel, torch_kernel
from kernels.ops.softmax import gpu, libraries
from kernels.ops.softmax.problem import Softmax
from kernels.provider import NUMPY, SUITE
from kernels.variant import DEFAULT, Variant, row

SOURCE = Path(__file__).with_name("softmax.c")
LINE, MANY = 16, 8  # losses of a cache line; lines from which on threads share none
Argument = structure("pointer: x t labels dx loss scratch", "int64: batch classes")  # C struct `argument` of softmax.c


def _rows(problem: Softmax) -> openmp.Axis:
    row = 4 * problem.classes
    strides = {"x": row, "t": row, "labels": 8, "dx": row, "loss": 4, "scratch": row}
    return openmp.Axis("batch", problem.batch, strides, LINE if problem.batch >= MANY * LINE else 1)


def _fused(problem: Softmax) -> str:
    if problem.before != "none":
        return f"after_{problem.before.replace('-', '')}"
    return f"{problem.want}_{problem.labels.replace('-', '')}"


def _fused_accepts(problem: Softmax) -> str | None:
    if problem.before != "none" and (problem.labels, problem.want) != ("index", "step"):
        return "supports --before only for the step from index labels: --labels index --want step"
    return None


def plain(problem: Softmax, *, labels: tuple[str, ...] = ("index", "one-hot"), before: bool = False) -> str | None:
    """Return why a row that computes gradient and loss cannot run `problem`, or None if it can.

    A preceding layer is accepted only with `before` and index labels.
    """
    if problem.want != "step":
        return "computes loss and gradient: --want step"
    if problem.before != "none" and not (before and problem.labels == "index"):
        only = "supports --before only with index labels: --labels index"
        return only if before else "does not support --before: --before none"
    return None if problem.labels in labels else f"label format not supported: --labels {labels[0]}"


def _own_kernel() -> tuple[str | None, str | None]:
    return "polynomials of kernels/maths.c", None


INDEX = partial(plain, labels=("index",))
LIBRARY = (DEFAULT, "library")
VARIANTS: tuple[Variant[Softmax], ...] = (
    row(
        SUITE,
        "c",
        maths.prepared(SOURCE, _fused, Argument, lambda p: 4 * p.count * (p.before != "none"), _rows),
        accepts=_fused_accepts,
        kernel=_own_kernel,
        roles=(*LIBRARY, "parts", "doubled", "labels", "made", "losses"),
    ),
    row(
        SUITE,
        "c-parts",
        maths.prepared(SOURCE, lambda p: f"parts_{p.labels.replace('-', '')}", Argument, lambda p: 12 * p.count),
        accepts=plain,
        kernel=_own_kernel,
    ),
    row(
        SUITE,
        "c-labels-made",
        maths.prepared(SOURCE, lambda p: "step_made", Argument, lambda p: 4 * p.count),
        accepts=INDEX,
        kernel=_own_kernel,
        roles=("made",),
    ),
    row(
        NUMPY,
        "numpy",
        partial(libraries.numpy_chain, parts=False),
        accepts=plain,
        kernel=numpy_kernel,
        roles=(*LIBRARY, "parts", "labels"),
    ),
    row(NUMPY, "numpy-parts", partial(libraries.numpy_chain, parts=True), accepts=plain, kernel=numpy_kernel),
    row(
        TORCH,
        "torch",
        partial(libraries.torch_out, rows=libraries.torch_rows),
        accepts=partial(plain, before=True),
        kernel=torch_kernel,
        roles=(*LIBRARY, "parts", "doubled", "labels"),
    ),
    row(TORCH, "torch-autograd", libraries.torch_autograd, accepts=plain, kernel=torch_kernel, roles=LIBRARY),
    row(
        TORCH,
        "torch-parts",
        partial(libraries.torch_out, rows=libraries.torch_parts),
        accepts=plain,
        kernel=torch_kernel,
    ),
    row(NUMBA, "numba", libraries.numba_rows, accepts=INDEX, kernel=numba_kernel, roles=LIBRARY),
    row(
        CUDA_SUITE,
        "cuda",
        grid.solving(gpu.SOURCE, gpu.launches, gpu.kernel),
        accepts=plain,
        roles=(*LIBRARY, "labels"),
    ),
    row(CUPY, "cupy", gpu.cupy_chain, accepts=plain, roles=LIBRARY),
    row(
        TORCH_CUDA,
        "torch-cuda",
        partial(gpu.torch_out, rows=libraries.torch_rows),
        accepts=partial(plain, before=True),
        roles=(*LIBRARY, "parts", "doubled", "labels"),
    ),
    row(TORCH_CUDA, "torch-cuda-parts", partial(gpu.torch_out, rows=libraries.torch_parts), accepts=plain),
)
