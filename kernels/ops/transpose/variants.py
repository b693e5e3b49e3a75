"""Transposition by our C, NumPy and somatcopy; on a GPU by our CUDA, cublasSgeam, CuPy, PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernels import build, grid
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch, held
from kernels.lazy import np
from kernels.libs import cublas, openblas, torch_cuda
from kernels.libs.cublas import CUBLAS
from kernels.libs.cuda import CUDA_SUITE, CUPY
from kernels.libs.openblas import OPENBLAS
from kernels.libs.torch_cuda import TORCH_CUDA
from kernels.native import launch, structure
from kernels.nvcc import Geometry
from kernels.ops.transpose.problem import Transpose
from kernels.problem import Array
from kernels.provider import NUMPY, SUITE
from kernels.setting import Setting
from kernels.variant import Variant, row

SOURCE, CUDA_SOURCE = Path(__file__).with_name("transpose.c"), Path(__file__).with_name("transpose.cu")
KERNELS = ("transpose_naive", "transpose_tiled")  # of transpose.cu
TILE, ROWS, DOWN = 32, 8, 64  # a block of 32 × 8 threads does two tiles of 32 × 32, one below the other
GEMM = Path(__file__).parents[1] / "gemm"
Argument = structure("pointer: x y function context", "int64: rows cols ldx ldy")  # C struct `argument` of transpose.c


def _bound(problem: Transpose, function: int, context: int | None) -> Bind:
    call = build.address(SOURCE, "transpose_call")
    x, y = problem.operands()

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Argument(
            function=function, context=context, rows=problem.rows, cols=problem.cols, ldx=x.ld, ldy=y.ld
        )
        return launch(call, argument, "xy", buffers)

    return bind


def tiled(problem: Transpose, device: object, setting: Setting) -> Bind:
    _alone(setting)
    return _bound(problem, build.address(GEMM / "transpose.c", "transpose_tiled"), None)


def somatcopy(problem: Transpose, device: object, setting: Setting) -> Bind:
    _alone(setting)
    blas = openblas.load("numpy")
    if blas.omatcopy is None:
        raise Unavailable(f"{blas.name} exports no cblas_somatcopy")
    width = "64" if blas.wide else "32"
    return _bound(problem, build.address(GEMM / "cblas.c", f"transpose_omatcopy{width}"), blas.omatcopy)


def numpy_copyto(problem: Transpose, device: object, setting: Setting) -> Bind:
    _alone(setting)
    return lambda buffers: Launch(partial(np.copyto, buffers[1], buffers[0].T))


def launches(problem: Transpose, kernel: str) -> tuple[Geometry, ...]:
    """Return a launch of one block for every two tiles."""
    x, y = problem.operands()
    return (tiles(kernel, problem.rows, problem.cols, x.ld, y.ld),)


def tiles(kernel: str, rows: int, cols: int, ldx: int, ldy: int) -> Geometry:
    """Return a launch of one block for each 64 × 32 tile of x (rows × cols).

    Both leading dimensions are in elements.
    """
    count, sizes = -(-rows // DOWN) * -(-cols // TILE), (rows, cols, ldx, ldy)
    return Geometry(
        kernel,
        (count, 1, 1),
        (TILE, ROWS, 1),
        (("operand", "x"), ("operand", "y"), *(("int64", size) for size in sizes)),
    )


def _cuda_kernel(kernel: str) -> Callable[[Transpose, Any, object], Bind]:
    return grid.solving(CUDA_SOURCE, launches, lambda problem: kernel)


def geam(problem: Transpose, device: Any, setting: object) -> Bind:
    """Prepare cublasSgeam, in whose column-major terms x is cols × rows and y is rows × cols."""
    on, (x, y) = device.blas(), problem.operands()

    def bind(buffers: Sequence[Any]) -> Launch:
        source, target = (int(buffer.data.ptr) for buffer in buffers)
        call = cublas.sgeam_transpose(on, problem.rows, problem.cols, (source, x.ld), (target, y.ld))
        return held(call, buffers, capturable=True, kernels=cublas.KERNELS)

    return bind


def cupy_copyto(problem: Transpose, device: Any, setting: object) -> Bind:
    return lambda buffers: Launch(partial(device.cp.copyto, buffers[1], buffers[0].T), kernels=1)


def torch_copy(problem: Transpose, device: Any, setting: object) -> Bind:
    torch = torch_cuda.load(device)

    def bind(buffers: Sequence[Any]) -> Launch:
        x, y = (torch_cuda.tensor(torch, buffer) for buffer in buffers)
        return held(partial(y.copy_, x.t()), buffers, kernels=1)

    return bind


def _alone(setting: Setting) -> None:
    if setting.threads != 1:
        raise Unavailable("single-threaded transpositions: --threads 1")


VARIANTS: tuple[Variant[Transpose], ...] = (
    row(SUITE, "tiled", tiled),
    row(NUMPY, "numpy", numpy_copyto),
    row(OPENBLAS, "somatcopy", somatcopy),
    row(CUBLAS, "cublas-geam", geam),
    row(CUDA_SUITE, "cuda-tiled", _cuda_kernel("transpose_tiled")),
    row(CUDA_SUITE, "cuda-naive", _cuda_kernel("transpose_naive")),
    row(CUPY, "cupy", cupy_copyto),
    row(TORCH_CUDA, "torch-cuda", torch_copy),
)
