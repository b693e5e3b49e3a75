"""cuBLAS through its C interface: flags, workspace and math mode are passed on unchanged.

Matrices are column-major, as in the library: a caller of row-major products swaps the operands (kernels/ops/gemm).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cuda
from kernels.provider import Provider

N, T, C = 0, 1, 2  # cublasOperation_t: as stored, transposed, conjugate-transposed
DEFAULT_MATH, PEDANTIC_MATH, TF32_MATH = 0, 2, 3  # cublasMath_t
DEFAULT_ALGORITHM = -1  # CUBLAS_GEMM_DEFAULT: the library chooses
WORKSPACE = 32 << 20  # bytes, as NVIDIA recommends from Hopper on
KERNELS = 3  # most kernels of one call: clearing a workspace, the product, the sum of a split K
INT, POINTER, FLOAT = ctypes.c_int, ctypes.c_void_p, ctypes.c_float

# The cudaDataType of A, B and C, and the cublasComputeType_t, by name. Sums, alpha and beta are always fp32. The plain
# compute type of fp32 is cublasSgemm's default and single precision on Hopper: TF32 has a separate type, and
# emulation by bf16 is off unless a handle's math mode or CUBLAS_EMULATE_SINGLE_PRECISION turns it on (a run's record
# holds such variables: kernels/steering.py). The pedantic type ignores all settings and forbids shortcuts.
TYPES = {
    "fp32": (0, 68),  # CUDA_R_32F, CUBLAS_COMPUTE_32F
    "pedantic": (0, 69),  # CUDA_R_32F, CUBLAS_COMPUTE_32F_PEDANTIC
    "tf32": (0, 77),  # CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32
    "bf16": (14, 68),  # CUDA_R_16BF, CUBLAS_COMPUTE_32F
    "fp16": (2, 68),  # CUDA_R_16F, CUBLAS_COMPUTE_32F
}


missing = cuda.libraries_missing


@dataclass(frozen=True)
class Handle:
    """A cuBLAS handle of this process, on one stream with a private workspace (0: the library's)."""

    api: Any
    handle: ctypes.c_void_p
    version: str
    stream: int
    workspace: int

    def math(self, mode: int) -> None:
        """Set DEFAULT_MATH, PEDANTIC_MATH or TF32_MATH for later products on this handle."""
        self.check("cublasSetMathMode", self.api.cublasSetMathMode(self.handle, INT(mode)))

    def check(self, name: str, status: int) -> None:
        """Raise LaunchError for a status other than success."""
        if status:
            raise refused(self.api.cublasGetStatusString, name, status)


def open_handle(stream: int, workspace: int, library: Any = None) -> Handle:
    """Open a handle on `stream` for the life of the process. Raises Unavailable, LaunchError.

    `workspace` is the device address of WORKSPACE bytes, a multiple of 256; 0 leaves it to the library."""
    library = library or cuda.load("cublas")
    handle = ctypes.c_void_p()
    if status := library.cublasCreate_v2(ctypes.byref(handle)):
        raise Unavailable(f"cublasCreate returned {status}: no usable GPU in this process")
    number = INT()
    library.cublasGetVersion_v2(handle, ctypes.byref(number))
    blas = Handle(library, handle, f"cuBLAS {dotted(number.value)}", stream, workspace)
    blas.check("cublasSetStream", library.cublasSetStream_v2(handle, POINTER(stream)))
    if workspace:  # after the stream: setting that takes the workspace away again
        size = ctypes.c_size_t(WORKSPACE)
        blas.check("cublasSetWorkspace", library.cublasSetWorkspace_v2(handle, POINTER(workspace), size))
    return blas


def sgemm(
    on: Handle,
    flags: tuple[int, int],
    mnk: tuple[int, int, int],
    scale: tuple[float, float],
    a: tuple[int, int],
    b: tuple[int, int],
    c: tuple[int, int],
) -> Callable[[], None]:
    """Return a call of C = alpha·op(A)·op(B) + beta·C, column-major; operands are (address, ld)."""
    return _product(on, "cublasSgemm", on.api.cublasSgemm_v2, flags, mnk, scale, [_placed(x) for x in (a, b, c)])


def gemm_ex(
    on: Handle,
    dtype: str,
    flags: tuple[int, int],
    mnk: tuple[int, int, int],
    scale: tuple[float, float],
    a: tuple[int, int],
    b: tuple[int, int],
    c: tuple[int, int],
) -> Callable[[], None]:
    """Return a call of `sgemm`'s product with element type `dtype`, a key of TYPES; ld in elements.

    If the library splits K, it may add partial sums of bf16 and fp16 in these types, by its default."""
    kind, compute = map(INT, TYPES[dtype])
    typed = [(POINTER(place), kind, INT(ld)) for place, ld in (a, b, c)]
    last = (compute, INT(DEFAULT_ALGORITHM))
    return _product(on, "cublasGemmEx", on.api.cublasGemmEx, flags, mnk, scale, typed, last)


def batched(
    on: Handle,
    numbers: str,
    flags: tuple[int, int],
    mnk: tuple[int, int, int],
    scale: tuple[float, float],
    a: tuple[int, int, int],
    b: tuple[int, int, int],
    c: tuple[int, int, int],
    count: int,
) -> Callable[[], None]:
    """Return a call of `count` products like `sgemm`'s; `numbers`: "real" or "complex".

    Operands are (address, ld, stride in elements from a matrix to the next)."""
    real = numbers == "real"
    name = "cublasSgemmStridedBatched" if real else "cublasCgemmStridedBatched"
    function = on.api.cublasSgemmStridedBatched if real else on.api.cublasCgemmStridedBatched
    strided = [(POINTER(place), INT(ld), ctypes.c_longlong(step)) for place, ld, step in (a, b, c)]
    return _product(on, name, function, flags, mnk, scale, strided, (INT(count),))


def _placed(x: tuple[int, int]) -> tuple[ctypes.c_void_p, ctypes.c_int]:
    return POINTER(x[0]), INT(x[1])


def _product(
    on: Handle,
    name: str,
    function: Any,
    flags: tuple[int, int],
    mnk: tuple[int, int, int],
    scale: tuple[float, float],
    abc: Sequence[tuple[Any, ...]],
    last: tuple[Any, ...] = (),
) -> Callable[[], None]:
    """Return a call of a GEMM function of cuBLAS; `last`: the arguments that follow C."""
    complex_numbers = name.startswith("cublasC")
    alpha, beta = ((FLOAT * 2)(x, 0.0) if complex_numbers else FLOAT(x) for x in scale)
    sizes, (a, b, c) = map(INT, (*flags, *mnk)), abc
    arguments = (on.handle, *sizes, ctypes.byref(alpha), *a, *b, ctypes.byref(beta), *c, *last)
    return prepared(function, arguments, name, on.check, (alpha, beta))


def sgeam_transpose(
    on: Handle, rows: int, cols: int, source: tuple[int, int], target: tuple[int, int]
) -> Callable[[], None]:
    """Return a call of target (rows×cols, column-major) = source transposed; operands are (address, ld)."""
    alpha, beta = FLOAT(1.0), FLOAT(0.0)
    words = map(INT, (T, N, rows, cols))
    x, y = _placed(source), _placed(target)
    arguments = (on.handle, *words, ctypes.byref(alpha), *x, ctypes.byref(beta), *y, *y)
    return prepared(on.api.cublasSgeam, arguments, "cublasSgeam", on.check, (alpha, beta))


def dotted(number: int) -> str:
    """Return a version number in dotted form: 130101 is 13.1.1."""
    major, rest = divmod(number, 10000)
    return f"{major}.{rest // 100}.{rest % 100}"


def refused(text: Any, name: str, status: int) -> LaunchError:
    """Return the exception for a status; `text`: the library's function that returns its description."""
    text.restype = ctypes.c_char_p
    words = text(INT(status))
    return LaunchError(f"{name} returned {status}: {words.decode() if words else 'unknown'}")


def prepared(
    function: Any, arguments: tuple[Any, ...], name: str, check: Callable[[str, int], None], keep: object
) -> Callable[[], None]:
    """Return a function without arguments that calls `function(*arguments)` and checks the status.

    `keep`: objects to keep alive because `arguments` holds their addresses."""

    def call(keep: object = keep) -> None:
        if status := function(*arguments):
            check(name, status)

    return call


def kernel() -> tuple[str | None, str | None]:
    """Return cuBLAS's version, read without a handle, and no instruction set."""
    return by_properties("cuBLAS", cuda.load("cublas").cublasGetProperty), None


def by_properties(library: str, property_of: Any) -> str | None:
    """Return a library's name and version by its function cu…GetProperty, or None if the function fails."""
    number, numbers = INT(), []
    for which in range(3):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
        if property_of(INT(which), ctypes.byref(number)):
            return None
        numbers.append(str(number.value))
    return f"{library} {'.'.join(numbers)}"


CUBLAS = Provider("cublas", "cuda", missing, kernel)
