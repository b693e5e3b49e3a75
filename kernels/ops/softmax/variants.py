"""Softmax with cross-entropy: ours fused, in parts, doubled, with labels written out; NumPy, PyTorch, Numba; on
a GPU ours, CuPy, PyTorch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kernels import grid, maths, own
from kernels.libs import cuda as cuda_library
from kernels.libs import numba, torch_cuda
from kernels.libs import torch as torch_library
from kernels.ops.activation.libraries import numba_kernel, numpy_kernel, torch_kernel
from kernels.ops.softmax import cuda, gpu, libraries
from kernels.ops.softmax.problem import Softmax
from kernels.variant import DEFAULT, Variant

SOURCE = Path(__file__).with_name("softmax.c")
LINE, MANY = 16, 8  # losses of a cache line, which threads do not share where each has lines enough


class Argument(ctypes.Structure):
    """`argument` of softmax.c."""

    _fields_ = (
        *((name, maths.POINTER) for name in ("x", "t", "labels", "dx", "loss", "scratch")),
        *((name, maths.INT64) for name in ("batch", "classes")),
    )


def _argument(problem: Softmax) -> tuple[ctypes.Structure, tuple[object, ...]]:
    return Argument(batch=problem.batch, classes=problem.classes), ()


def _rows(problem: Softmax) -> own.Axis:
    row = 4 * problem.classes
    strides = {"x": row, "t": row, "labels": 8, "dx": row, "loss": 4, "scratch": row}
    return own.Axis("batch", problem.batch, strides, LINE if problem.batch >= MANY * LINE else 1)


def _fused(problem: Softmax) -> str:
    if problem.before != "none":
        return f"after_{problem.before.replace('-', '')}"
    return f"{problem.want}_{problem.labels.replace('-', '')}"


def _fused_accepts(problem: Softmax) -> str | None:
    if problem.before != "none" and (problem.labels, problem.want) != ("index", "step"):
        return "a layer before is written for --labels index --want step"
    return None


def plain(problem: Softmax, *, labels: tuple[str, ...] = ("index", "one-hot"), before: bool = False) -> str | None:
    """For what gives gradient and loss; with a layer before only where that is written."""
    if problem.want != "step":
        return "it gives gradient and loss: --want step"
    if problem.before != "none" and not (before and problem.labels == "index"):
        return "it has no layer before: --before none" if not before else "a layer before: --labels index"
    return None if problem.labels in labels else f"it takes labels as {labels[0]}"


def _own_kernel() -> tuple[str | None, str | None]:
    return "polynomials of kernels/maths.c", None


INDEX = partial(plain, labels=("index",))
LIBRARY = (DEFAULT, "library")
VARIANTS: tuple[Variant[Softmax], ...] = (
    Variant(
        "c",
        "cpu",
        "suite",
        maths.prepared(SOURCE, _fused, _argument, lambda p: 4 * p.count * (p.before != "none"), _rows),
        accepts=_fused_accepts,
        kernel=_own_kernel,
        roles=(*LIBRARY, "parts", "doubled", "labels", "made", "losses"),
    ),
    Variant(
        "c-parts",
        "cpu",
        "suite",
        maths.prepared(SOURCE, lambda p: f"parts_{p.labels.replace('-', '')}", _argument, lambda p: 12 * p.count),
        accepts=plain,
        kernel=_own_kernel,
    ),
    Variant(
        "c-labels-made",
        "cpu",
        "suite",
        maths.prepared(SOURCE, lambda p: "step_made", _argument, lambda p: 4 * p.count),
        accepts=INDEX,
        kernel=_own_kernel,
        roles=("made",),
    ),
    Variant(
        "numpy",
        "cpu",
        "numpy",
        partial(libraries.numpy_chain, parts=False),
        accepts=plain,
        kernel=numpy_kernel,
        python=True,
        roles=(*LIBRARY, "parts", "labels"),
    ),
    Variant(
        "numpy-parts",
        "cpu",
        "numpy",
        partial(libraries.numpy_chain, parts=True),
        accepts=plain,
        kernel=numpy_kernel,
        python=True,
    ),
    Variant(
        "torch",
        "cpu",
        "torch",
        partial(libraries.torch_out, rows=libraries.torch_rows),
        accepts=partial(plain, before=True),
        missing=torch_library.missing,
        kernel=torch_kernel,
        python=True,
        roles=(*LIBRARY, "parts", "doubled", "labels"),
    ),
    Variant(
        "torch-autograd",
        "cpu",
        "torch",
        libraries.torch_autograd,
        accepts=plain,
        missing=torch_library.missing,
        kernel=torch_kernel,
        python=True,
        roles=LIBRARY,
    ),
    Variant(
        "torch-parts",
        "cpu",
        "torch",
        partial(libraries.torch_out, rows=libraries.torch_parts),
        accepts=plain,
        missing=torch_library.missing,
        kernel=torch_kernel,
        python=True,
    ),
    Variant(
        "numba",
        "cpu",
        "numba",
        libraries.numba_rows,
        accepts=INDEX,
        missing=numba.missing,
        kernel=numba_kernel,
        python=True,
        roles=LIBRARY,
    ),
    Variant(
        "cuda",
        "cuda",
        "suite",
        grid.solving(cuda),
        accepts=plain,
        missing=cuda_library.missing,
        roles=(*LIBRARY, "labels"),
    ),
    Variant(
        "cupy",
        "cuda",
        "cupy",
        gpu.cupy_chain,
        accepts=plain,
        missing=cuda_library.missing,
        kernel=cuda_library.kernel,
        python=True,
        roles=LIBRARY,
    ),
    Variant(
        "torch-cuda",
        "cuda",
        "torch",
        partial(gpu.torch_out, rows=libraries.torch_rows),
        accepts=partial(plain, before=True),
        missing=torch_cuda.missing,
        kernel=torch_cuda.kernel,
        python=True,
        roles=(*LIBRARY, "parts", "doubled", "labels"),
    ),
    Variant(
        "torch-cuda-parts",
        "cuda",
        "torch",
        partial(gpu.torch_out, rows=libraries.torch_parts),
        accepts=plain,
        missing=torch_cuda.missing,
        kernel=torch_cuda.kernel,
        python=True,
    ),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
