"""cuDNN 9's named convolution algorithms through its C interface, the one of version 7.

The three directions take their arguments in one order: what is read, what is read, the convolution, what is
written. A library without a device makes descriptors and answers 1001 to `cudnnCreate`.
"""

from __future__ import annotations

import contextlib
import ctypes
from dataclasses import dataclass
from typing import Any

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cuda
from kernels.libs.convolutions import Shape

FLOAT, NCHW, CROSS_CORRELATION = 0, 0, 1  # cudnnDataType_t, cudnnTensorFormat_t, cudnnConvolutionMode_t
MATHS = {"default": 0, "tensor": 1, "convert": 2, "fma": 3}  # cudnnMathType_t
INT, POINTER, SIZE = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
MOST = 16  # rows that a list of algorithms may have


class Perf(ctypes.Structure):
    """cudnnConvolution{Fwd,BwdData,BwdFilter}AlgoPerf_t: the same 48 bytes for all three."""

    _fields_ = (
        ("algo", INT),
        ("status", INT),
        ("time", ctypes.c_float),  # ms; negative where it was not measured
        ("memory", SIZE),
        ("determinism", INT),
        ("mathType", INT),
        ("reserved", INT * 3),
    )


@dataclass(frozen=True)
class Direction:
    """`stem` is its part of cuDNN's names; `reads` and `writes` name operands of a Shape."""

    stem: str
    reads: tuple[str, str]
    writes: str
    algorithms: tuple[str, ...]


FORWARD = (
    "IMPLICIT_GEMM",
    "IMPLICIT_PRECOMP_GEMM",
    "GEMM",
    "DIRECT",
    "FFT",
    "FFT_TILING",
    "WINOGRAD",
    "WINOGRAD_NONFUSED",
)
DATA = ("ALGO_0", "ALGO_1", "FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED")
FILTER = ("ALGO_0", "ALGO_1", "FFT", "ALGO_3", "WINOGRAD", "WINOGRAD_NONFUSED", "FFT_TILING")
DIRECTIONS = {
    "forward": Direction("Forward", ("x", "w"), "y", FORWARD),
    "backward data": Direction("BackwardData", ("w", "y"), "x", DATA),
    "backward filter": Direction("BackwardFilter", ("x", "y"), "w", FILTER),
}


@dataclass(frozen=True)
class Cudnn:
    """The library and a handle on the null stream; `handle` is null where only descriptors are made."""

    api: Any
    handle: ctypes.c_void_p

    def check(self, name: str, status: int) -> None:
        """Raise LaunchError with the library's own words."""
        if not status:
            return
        text = self.api.cudnnGetErrorString
        text.restype = ctypes.c_char_p
        words = ctypes.create_string_buffer(512)
        with contextlib.suppress(AttributeError):  # since cuDNN 9
            self.api.cudnnGetLastErrorString(words, SIZE(len(words)))
        detail = " ".join(words.value.decode(errors="replace").split())
        raise LaunchError(f"{name} answers {status}: {(text(INT(status)) or b'').decode()} {detail}".strip())

    def call(self, name: str, *arguments: Any) -> None:
        self.check(name, getattr(self.api, name)(*arguments))

    def make(self, kind: str) -> ctypes.c_void_p:
        """A descriptor; none is destroyed, the process is short."""
        descriptor = ctypes.c_void_p()
        self.call(f"cudnnCreate{kind}Descriptor", ctypes.byref(descriptor))
        return descriptor


def load() -> Any:
    """The library, behind the one that its FFT and Winograd engines look for. Raises Unavailable."""
    with contextlib.suppress(Unavailable, OSError):
        ctypes.CDLL(cuda.load("cublasLt")._name, ctypes.RTLD_GLOBAL)
    return cuda.load("cudnn")


def open_handle(library: Any = None) -> Cudnn:
    """Raises Unavailable where there is no library or no device."""
    cudnn = Cudnn(library or load(), ctypes.c_void_p())
    try:
        cudnn.call("cudnnCreate", ctypes.byref(cudnn.handle))
    except LaunchError as fault:
        raise Unavailable(str(fault)) from None
    return cudnn


@dataclass(frozen=True)
class Convolution:
    """A direction of a shape: its descriptors, in the order of the calls."""

    on: Cudnn
    direction: Direction
    first: ctypes.c_void_p
    second: ctypes.c_void_p
    how: ctypes.c_void_p
    out: ctypes.c_void_p

    def math(self, name: str) -> None:
        self.on.call("cudnnSetConvolutionMathType", self.how, INT(MATHS[name]))

    def workspace(self, algorithm: int) -> int:
        """Bytes that an algorithm asks for. Raises LaunchError where it does not exist for this problem."""
        size = SIZE()
        self.on.call(
            f"cudnnGetConvolution{self.direction.stem}WorkspaceSize",
            self.on.handle,
            self.first,
            self.second,
            self.how,
            self.out,
            INT(algorithm),
            ctypes.byref(size),
        )
        return size.value

    def run(self, algorithm: int, places: tuple[int, int, int], space: tuple[int, int]) -> None:
        """`places`: addresses of what is read and of what is written; `space`: address and bytes."""
        one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        self.on.call(
            f"cudnnConvolution{self.direction.stem}",
            self.on.handle,
            ctypes.byref(one),
            self.first,
            POINTER(places[0]),
            self.second,
            POINTER(places[1]),
            self.how,
            INT(algorithm),
            POINTER(space[0]),
            SIZE(space[1]),
            ctypes.byref(zero),
            self.out,
            POINTER(places[2]),
        )

    def found(self, places: tuple[int, int, int], space: tuple[int, int]) -> list[dict[str, Any]]:
        """What `Find…Ex` measures within a workspace, best first."""
        rows, count = (Perf * MOST)(), INT()
        self.on.call(
            f"cudnnFindConvolution{self.direction.stem}AlgorithmEx",
            self.on.handle,
            self.first,
            POINTER(places[0]),
            self.second,
            POINTER(places[1]),
            self.how,
            self.out,
            POINTER(places[2]),
            INT(MOST),
            ctypes.byref(count),
            rows,
            POINTER(space[0]),
            SIZE(space[1]),
        )
        return [self._row(row) for row in rows[: count.value]]

    def guessed(self) -> list[dict[str, Any]]:
        """What the heuristics of `Get…_v7` rank, best first; nothing runs."""
        rows, count = (Perf * MOST)(), INT()
        self.on.call(
            f"cudnnGetConvolution{self.direction.stem}Algorithm_v7",
            self.on.handle,
            self.first,
            self.second,
            self.how,
            self.out,
            INT(MOST),
            ctypes.byref(count),
            rows,
        )
        return [self._row(row) for row in rows[: count.value]]

    def _row(self, row: Any) -> dict[str, Any]:
        names = self.direction.algorithms
        maths = {number: name for name, number in MATHS.items()}
        return {
            "algorithm": names[row.algo] if 0 <= row.algo < len(names) else row.algo,
            "status": row.status,
            "ms": row.time,
            "workspace": row.memory,
            "deterministic": bool(row.determinism),
            "math": maths.get(row.mathType, row.mathType),
        }


def convolution(on: Cudnn, name: str, shape: Shape) -> Convolution:
    """Descriptors of one direction."""
    direction, descriptors = DIRECTIONS[name], {}
    for operand in "xwy":
        dims = map(INT, shape.dims[operand])
        if operand == "w":
            descriptors[operand] = on.make("Filter")
            on.call("cudnnSetFilter4dDescriptor", descriptors[operand], INT(FLOAT), INT(NCHW), *dims)
        else:
            descriptors[operand] = on.make("Tensor")
            on.call("cudnnSetTensor4dDescriptor", descriptors[operand], INT(NCHW), INT(FLOAT), *dims)
    how = on.make("Convolution")
    numbers = (shape.pad, shape.pad, 1, 1, 1, 1, CROSS_CORRELATION, FLOAT)
    on.call("cudnnSetConvolution2dDescriptor", how, *map(INT, numbers))
    first, second = (descriptors[operand] for operand in direction.reads)
    return Convolution(on, direction, first, second, how, descriptors[direction.writes])
