"""Bindings of the products' C files: cblas.c around a library, naive.c, blocked.c, transpose.c."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels import build, openmp
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.libs.cblas import Blas
from kernels.native import launch, structure
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Array
from kernels.setting import Setting

HERE = Path(__file__).parent
POINTER, INT64 = ctypes.c_void_p, ctypes.c_int64
GRAIN, PAGE = 6, 4096  # rows of a tile of blocked.c, never split between threads; bytes of a page
# C struct `product` of cblas.c
Product = structure(
    "pointer: a b c sgemm", "int64: m n k lda ldb ldc", "int32: trans_a trans_b wide", "float: alpha beta"
)


class Strategy(ctypes.Structure):
    """C struct `strategy` of cblas.c, with the product's fields inlined for lookup by name."""

    _anonymous_ = ("p",)
    _fields_ = (
        ("p", Product),
        ("copy_a", POINTER),
        ("copy_b", POINTER),
        ("transpose", POINTER),
        ("context", POINTER),
        ("uses", INT64),
    )


# C struct `product` of naive.c and blocked.c
StridedProduct = structure(
    "pointer: a b c", "int64: m n k a_row a_col b_row b_col ldc", "float: alpha beta", "pointer: pack"
)


def _fields(problem: Gemm, blas: Blas) -> dict[str, Any]:
    a, b, c = problem.operands()
    return {
        "sgemm": blas.sgemm,
        "wide": blas.wide,
        "m": problem.m,
        "n": problem.n,
        "k": problem.k,
        "lda": a.ld,
        "ldb": b.ld,
        "ldc": c.ld,
        "trans_a": problem.trans[0] == "t",
        "trans_b": problem.trans[1] == "t",
        "alpha": problem.alpha,
        "beta": problem.beta,
    }


def product(load: Callable[[], Blas], symbol: str = "cblas_product") -> Callable[[Gemm, object, Setting], Bind]:
    """Return a `prepare` of a library's cblas_sgemm, called by the function `symbol` of cblas.c."""

    def prepare(problem: Gemm, device: object, setting: Setting) -> Bind:
        blas = load()
        blas.use(setting.threads)
        function = build.address(HERE / "cblas.c", symbol)
        fields = _fields(problem, blas)

        def bind(buffers: Sequence[Array]) -> Launch:
            return launch(function, Product(**fields), "abc", buffers)

        return bind

    return prepare


def nested(load: Callable[[], Blas], outer: int, inner: int) -> Callable[[Gemm, object, Setting], Bind]:
    """Return a `prepare` of `outer` threads that each multiply a share of op(A)'s rows with the library.

    The library is set to `inner` threads.
    """

    def prepare(problem: Gemm, device: object, setting: Setting) -> Bind:
        if setting.threads != outer * inner:
            raise Unavailable(f"requires {outer} × {inner} threads: --threads {outer * inner}")
        blas = load()
        blas.use(inner)
        function, fields = build.address(HERE / "cblas.c", "cblas_product"), _fields(problem, blas)
        row = fields["lda"] if problem.trans[0] == "n" else 1
        rows = openmp.Axis("m", problem.m, {"a": 4 * row, "c": 4 * fields["ldc"]})
        ours = replace(setting, threads=outer)
        return lambda buffers: openmp.launched(function, Product(**fields), "abc", buffers, ours, rows)

    return prepare


def strategy(load: Callable[[], Blas], symbol: str, uses: int, tiled: bool) -> Callable[[Gemm, object, Setting], Bind]:
    """Return a `prepare` of `symbol` in cblas.c; our kernel transposes if `tiled`, else the library's."""

    def prepare(problem: Gemm, device: Any, setting: Setting) -> Bind:
        blas = load()
        blas.use(setting.threads)
        function = build.address(HERE / "cblas.c", symbol)
        fields = _fields(problem, blas) | {"uses": uses}
        if tiled:
            fields["transpose"] = build.address(HERE / "transpose.c", "transpose_tiled")
        elif blas.omatcopy is None:
            raise Unavailable(f"{blas.name} exports no cblas_somatcopy")
        else:
            width = "64" if blas.wide else "32"
            fields["transpose"] = build.address(HERE / "cblas.c", f"transpose_omatcopy{width}")
            fields["context"] = blas.omatcopy
        copies = []
        for flag, name, size in zip(problem.trans, ("copy_a", "copy_b"), (problem.m, problem.n), strict=True):
            if flag == "t":
                block = device.allocate(4 * size * problem.k)
                device.scatter(block, size)  # cblas_on_copies, measured alone, reads normal numbers
                fields[name] = block.ctypes.data
                copies.append(block)
        workspace = sum(block.nbytes for block in copies)

        def bind(buffers: Sequence[Array]) -> Launch:
            argument = Strategy()
            for name, value in fields.items():
                setattr(argument, name, value)
            return launch(function, argument, "abc", buffers, uses=uses, workspace=workspace, keep=tuple(copies))

        return bind

    return prepare


def _workspace(source: Path, flags: tuple[str, ...]) -> int:
    """Return the bytes of a thread's packed operands, rounded up to whole pages."""
    function = build.load(source, flags).gemm_blocked_workspace
    function.restype = ctypes.c_int64
    return -(-int(function()) // PAGE) * PAGE


def c_kernel(name: str) -> Callable[[Gemm, object, Setting], Bind]:
    """Return a `prepare` of the suite's C product `name`: naive or blocked."""

    def prepare(problem: Gemm, device: Any, setting: Setting) -> Bind:
        source, flags = HERE / f"{name}.c", openmp.flags(setting)
        function, kernel = build.address(source, f"gemm_{name}", flags), openmp.compiled(source, flags, setting)
        a, b, c = problem.operands()
        fields: dict[str, Any] = {"m": problem.m, "n": problem.n, "k": problem.k, "ldc": c.ld}
        fields |= {"alpha": problem.alpha, "beta": problem.beta}
        fields["a_row"], fields["a_col"] = (a.ld, 1) if problem.trans[0] == "n" else (1, a.ld)
        fields["b_row"], fields["b_col"] = (b.ld, 1) if problem.trans[1] == "n" else (1, b.ld)
        keep: tuple[object, ...] = ()
        each = _workspace(source, flags) if name == "blocked" else 0
        size = each * setting.threads
        if each:
            block = device.allocate(size)
            fields["pack"], keep = block.ctypes.data, (block,)
        strides = {"a": 4 * fields["a_row"], "c": 4 * fields["ldc"]}
        rows = openmp.Axis("m", problem.m, strides, GRAIN, {"pack": each})

        def bind(buffers: Sequence[Array]) -> Launch:
            product = StridedProduct(**fields)
            more = {"workspace": size, "kernel": kernel}
            return openmp.launched(function, product, "abc", buffers, setting, rows, keep, **more)

        return bind

    return prepare
