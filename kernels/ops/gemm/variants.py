"""Products on a CPU: libraries called from C and from Python, the suite's kernels, and strategies."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kernels.errors import UsageError
from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs import mkl, onednn, openblas
from kernels.libs import torch as torch_library
from kernels.libs.cblas import Blas, describe
from kernels.libs.mkl import MKL
from kernels.libs.numba import NUMBA
from kernels.libs.onednn import ONEDNN
from kernels.libs.openblas import OPENBLAS, OPENBLAS_SCIPY
from kernels.libs.torch import TORCH
from kernels.ops.gemm import libraries, native
from kernels.ops.gemm.accepts import column_major, copied, numpy_call, plain, torch_call, transposes, typed, up_to
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Array, Work
from kernels.provider import SUITE, Provider
from kernels.variant import DEFAULT, Variant, row


def numpy_matmul(problem: Gemm, device: object, setting: object) -> Bind:
    def bind(buffers: Sequence[Array]) -> Launch:
        a, b, c = buffers
        left = a if problem.trans[0] == "n" else a.T
        right = b if problem.trans[1] == "n" else b.T
        return Launch(partial(np.matmul, left, right, c))

    return bind


def torch_mm(problem: Gemm, device: Any, setting: Any) -> Bind:
    """Prepare torch.mm (int8: torch._int_mm); except in float32, a scratch call logs the kernel's name."""
    torch = torch_library.on_threads(setting.threads)

    def call(buffers: Sequence[Array]) -> Callable[[], object]:
        a, b, c = (torch_library.tensor(torch, x) for x in buffers)
        left = a if problem.trans[0] == "n" else a.t()
        right = b if problem.trans[1] == "n" else b.t()
        multiply = torch._int_mm if problem.dtype == "int8" else torch.mm
        return partial(multiply, left, right, out=c)

    if problem.dtype == "fp32":
        return lambda buffers: Launch(call(buffers))

    sample = call([device.view(device.allocate(x.nbytes), 0, x) for x in problem.operands()])
    unlogged = f"torch {torch.__version__}, kernel not logged by oneDNN", None
    kernel = torch_library.named(torch, sample, "matmul", "gemm_api") or unlogged
    return lambda buffers: Launch(call(buffers), kernel=kernel)


def torch_accepts(problem: Gemm) -> str | None:
    """Return why torch cannot compute `problem`, or None if it can; in int8, C must have no padding."""
    if problem.dtype == "int8" and problem.ld_pad:
        return "torch._int_mm supports no row padding: --ld-pad 0"
    return plain(problem)


SINGLE = typed("fp32")
SLOW = "the textbook loops are slow"
LONG_LAUNCH = 5e9  # FLOP: about 0.1 s on one core
LIBRARIES: dict[str, tuple[Provider, Callable[[], Blas]]] = {
    "openblas": (OPENBLAS, partial(openblas.load, "numpy")),
    "openblas-scipy": (OPENBLAS_SCIPY, partial(openblas.load, "scipy")),
    "mkl": (MKL, mkl.load),
}


def _library(name: str, roles: tuple[str, ...]) -> Variant[Gemm]:
    provider, load = LIBRARIES[name]
    return row(provider, name, native.product(load), accepts=SINGLE, blas=column_major, roles=roles)


def transpose_first(parameter: str = "") -> Variant[Gemm]:
    """Return `transpose-then-nn[:library|:somatcopy]`: transpose by our kernel or OpenBLAS's, then NN."""
    return _strategy("transpose-then-nn", parameter, "cblas_transpose_first", 1)


def kept(parameter: str = "") -> Variant[Gemm]:
    """Return `kept-transpose[:uses]`: one transposed copy serves `uses` products (default 8)."""
    if parameter and not (re.fullmatch("[0-9]+", parameter) and int(parameter)):
        raise UsageError(f"--variant kept-transpose:{parameter}: uses must be positive, e.g. kept-transpose:8")
    uses = int(parameter or 8)
    variant = _strategy("kept-transpose", str(uses), "cblas_transpose_first", uses)
    return replace(variant, parts=_apart(uses))


def _apart(uses: int) -> Callable[[Gemm], tuple[tuple[Variant[Gemm], int], ...]]:
    """Return a `parts` function: copy and use, to be timed separately, if a launch would last too long."""
    copy = _strategy("transpose-copy", "", "cblas_copies", 1)
    use = _strategy("nn-on-copy", "", "cblas_on_copies", 1)

    def parts(problem: Gemm) -> tuple[tuple[Variant[Gemm], int], ...]:
        return ((copy, uses), (use, 1)) if uses * problem.flops > LONG_LAUNCH else ()

    return parts


def _strategy(family: str, parameter: str, symbol: str, uses: int) -> Variant[Gemm]:
    library = parameter if parameter in LIBRARIES else "openblas"
    provider, load = LIBRARIES[library]
    if family == "transpose-then-nn" and parameter not in ("", "somatcopy", *LIBRARIES):
        names = ", ".join(("somatcopy", *LIBRARIES))
        raise UsageError(f"--variant {family}:{parameter}: choose from {names} after the colon")
    tiled = parameter != "somatcopy"
    by = "this suite's transposition" if tiled else "transposition by OpenBLAS's somatcopy"
    prepare = native.strategy(load, symbol, uses, tiled=tiled)
    return row(
        provider,
        f"{family}:{parameter}" if parameter else family,
        prepare,
        accepts=typed("fp32", also=transposes(uses)),
        blas=lambda problem: f"{by}, then NN = sgemm(N,N)",
        work=lambda problem: Work(problem.flops, problem.bytes + copied(problem) / uses),
    )


def nested(parameter: str = "") -> Variant[Gemm]:
    """Return `nested:PxT`: P threads of ours, each with a share of the rows, call OpenBLAS with T threads.

    All callers share OpenBLAS's one pool, in which they take turns.
    """
    counts = re.fullmatch("([1-9][0-9]*)x([1-9][0-9]*)", parameter or "2x1")
    if counts is None:
        raise UsageError(f"--variant nested:{parameter}: write OUTERxINNER threads, e.g. nested:2x1")
    outer, inner = map(int, counts.groups())
    provider, load = LIBRARIES["openblas"]
    # In a separate process, since a library has one thread count per process.
    apart = replace(provider, name=f"openblas {outer}x{inner}")
    prepare = native.nested(load, outer, inner)
    return row(apart, f"nested:{outer}x{inner}", prepare, accepts=SINGLE, blas=column_major, roles=())


LIBRARY = (DEFAULT, "library")
IN_NUMPY = replace(OPENBLAS, missing=lambda: None, python=True)  # with whichever BLAS NumPy has
VARIANTS: tuple[Variant[Gemm], ...] = (
    _library("openblas", (*LIBRARY, "strategy", "crossover")),
    _library("openblas-scipy", (*LIBRARY, "crossover")),
    row(IN_NUMPY, "numpy", numpy_matmul, accepts=typed("fp32", also=plain), blas=numpy_call, roles=LIBRARY),
    _library("mkl", (*LIBRARY, "crossover")),
    row(
        TORCH,
        "torch",
        torch_mm,
        accepts=typed("fp32", "bf16", "fp16", "int8", also=torch_accepts),
        blas=torch_call,
        roles=(*LIBRARY, "types"),
    ),
    row(
        ONEDNN,
        "onednn",
        native.product(onednn.blas, "dnnl_product"),
        kernel=describe(onednn.blas),
        accepts=SINGLE,
        blas=column_major,
        roles=(DEFAULT,),
    ),
    row(SUITE, "naive", native.c_kernel("naive"), accepts=typed("fp32", also=up_to(0.3, SLOW)), roles=()),
    row(
        SUITE, "blocked", native.c_kernel("blocked"), accepts=typed("fp32", also=up_to(40, "our own product")), roles=()
    ),
    row(
        NUMBA, "numba-naive", libraries.product(libraries.naive), accepts=typed("fp32", also=up_to(0.3, SLOW)), roles=()
    ),
    row(
        NUMBA,
        "numba-blocked",
        libraries.product(libraries.blocked),
        accepts=typed("fp32", also=up_to(40, "no library")),
        roles=(),
    ),
    replace(transpose_first(), roles=("strategy",)),
    replace(transpose_first("somatcopy"), roles=("strategy",)),
    replace(kept("8"), roles=("kept",)),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {
    "transpose-then-nn": transpose_first,
    "kept-transpose": kept,
    "nested": nested,
}
