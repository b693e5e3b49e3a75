"""cuDNN 9's named convolution algorithms through its C interface of version 7.

The three directions take their arguments in the same order: both inputs, the convolution, the output. Without a
device, the library makes descriptors, and `cudnnCreate` returns 1001."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cuda
from kernels.libs.cublas import dotted, prepared
from kernels.provider import Provider

FLOAT, CROSS_CORRELATION = 0, 1  # cudnnDataType_t, cudnnConvolutionMode_t
FORMATS = {"nchw": 0, "nhwc": 1}  # cudnnTensorFormat_t
MATHS = {"default": 0, "tensor": 1, "convert": 2, "fma": 3}  # cudnnMathType_t
INT, POINTER, SIZE = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
NOT_SUPPORTED = range(3000, 4000)  # cudnnStatus_t: unsupported for this problem or this GPU
MOST = 16  # entries of a list of algorithms


class Perf(ctypes.Structure):
    """Structure cudnnConvolution{Fwd,BwdData,BwdFilter}AlgoPerf_t: the same 48 bytes for all three."""

    _fields_ = (
        ("algo", INT),
        ("status", INT),
        ("time", ctypes.c_float),  # ms; negative where it was not measured
        ("memory", SIZE),
        ("determinism", INT),
        ("mathType", INT),
        ("reserved", INT * 3),
    )


Dims = tuple[int, int, int, int]


@dataclass(frozen=True)
class Layer:
    """A convolution's sizes and parameters; sizes are in NCHW order for every layout."""

    x: Dims  # n, c, h, w
    w: Dims  # k, c/groups, r, s
    y: Dims  # n, k, h, w
    pad: tuple[int, int] = (0, 0)  # above and below, left and right
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    layout: str = "nchw"


@dataclass(frozen=True)
class Direction:
    """A direction of a convolution: cuDNN's names of its functions and algorithms, and its operands."""

    run: str  # name of the function that runs a convolution
    size: str  # name of the function that returns the bytes of workspace
    find: str  # name of the function that measures all algorithms
    guess: str  # name of the function that ranks algorithms by heuristics
    reads: tuple[str, str]  # names of operands in Layer
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
    "forward": Direction(
        "cudnnConvolutionForward",
        "cudnnGetConvolutionForwardWorkspaceSize",
        "cudnnFindConvolutionForwardAlgorithmEx",
        "cudnnGetConvolutionForwardAlgorithm_v7",
        ("x", "w"),
        "y",
        FORWARD,
    ),
    "backward data": Direction(
        "cudnnConvolutionBackwardData",
        "cudnnGetConvolutionBackwardDataWorkspaceSize",
        "cudnnFindConvolutionBackwardDataAlgorithmEx",
        "cudnnGetConvolutionBackwardDataAlgorithm_v7",
        ("w", "y"),
        "x",
        DATA,
    ),
    "backward filter": Direction(
        "cudnnConvolutionBackwardFilter",
        "cudnnGetConvolutionBackwardFilterWorkspaceSize",
        "cudnnFindConvolutionBackwardFilterAlgorithmEx",
        "cudnnGetConvolutionBackwardFilterAlgorithm_v7",
        ("x", "y"),
        "w",
        FILTER,
    ),
}


@dataclass(frozen=True)
class Cudnn:
    """The cuDNN library and a handle, which is null if only descriptors are made."""

    api: Any
    handle: ctypes.c_void_p

    def check(self, name: str, status: int) -> None:
        """Raise Unavailable for an unsupported call, LaunchError for other failures, with cuDNN's message."""
        if not status:
            return
        text = self.api.cudnnGetErrorString
        text.restype = ctypes.c_char_p
        words = ctypes.create_string_buffer(512)
        with contextlib.suppress(AttributeError):  # since cuDNN 9
            last = self.api.cudnnGetLastErrorString
            last.restype = None
            last(words, SIZE(len(words)))
        detail = " ".join(words.value.decode(errors="replace").split())
        kind = Unavailable if status in NOT_SUPPORTED else LaunchError
        raise kind(f"{name} returned {status}: {(text(INT(status)) or b'').decode()} {detail}".strip())

    def call(self, name: str, *arguments: Any) -> None:
        self.check(name, getattr(self.api, name)(*arguments))

    def make(self, name: str) -> ctypes.c_void_p:
        """Return a new descriptor from the cuDNN function `name`.

        Descriptors are never destroyed: they are small, and the process is short."""
        descriptor = ctypes.c_void_p()
        self.call(name, ctypes.byref(descriptor))
        return descriptor


def load() -> Any:
    """Load cuDNN after cuBLASLt, which its FFT and Winograd engines need. Raises Unavailable."""
    with contextlib.suppress(Unavailable, OSError):
        ctypes.CDLL(cuda.load("cublasLt")._name, ctypes.RTLD_GLOBAL)
    return cuda.load("cudnn")


def open_handle(library: Any = None, stream: int = 0) -> Cudnn:
    """Open a handle, on the null stream if `stream` is 0. Raises Unavailable without library or device."""
    cudnn = Cudnn(library or load(), ctypes.c_void_p())
    try:
        cudnn.call("cudnnCreate", ctypes.byref(cudnn.handle))
    except LaunchError as fault:
        raise Unavailable(str(fault)) from None
    if stream:
        cudnn.call("cudnnSetStream", cudnn.handle, POINTER(stream))
    return cudnn


def kernel() -> tuple[str | None, str | None]:
    """Return cuDNN's version, read without a handle, and no instruction set."""
    ask = load().cudnnGetVersion
    ask.restype = SIZE
    return f"cuDNN {dotted(ask())}", None


@dataclass(frozen=True)
class Convolution:
    """cuDNN's descriptors of one direction of a layer, in the order in which calls take them."""

    on: Cudnn
    direction: Direction
    first: ctypes.c_void_p
    second: ctypes.c_void_p
    how: ctypes.c_void_p
    out: ctypes.c_void_p

    def math(self, name: str) -> None:
        self.on.call("cudnnSetConvolutionMathType", self.how, INT(MATHS[name]))

    def workspace(self, algorithm: int) -> int:
        """Return the bytes that an algorithm needs. Raises Unavailable if it does not support the problem."""
        size = SIZE()
        self.on.call(self.direction.size, *self._descriptors, INT(algorithm), ctypes.byref(size))
        return size.value

    @property
    def _descriptors(self) -> tuple[Any, ...]:
        return self.on.handle, self.first, self.second, self.how, self.out

    def launch(self, algorithm: int, places: tuple[int, int, int], space: tuple[int, int]) -> Callable[[], None]:
        """Return a call of the convolution.

        `places`: addresses of both inputs and of the output; `space`: address and bytes of the workspace."""
        alpha, beta = ctypes.c_float(1.0), ctypes.c_float(0.0)
        name = self.direction.run
        inputs = (self.first, POINTER(places[0]), self.second, POINTER(places[1]))
        how = (self.how, INT(algorithm), POINTER(space[0]), SIZE(space[1]))
        output = (ctypes.byref(beta), self.out, POINTER(places[2]))
        arguments = (self.on.handle, ctypes.byref(alpha), *inputs, *how, *output)
        return prepared(getattr(self.on.api, name), arguments, name, self.on.check, (alpha, beta))

    def searched(self, places: tuple[int, int, int], space: tuple[int, int]) -> list[dict[str, Any]]:
        """Run cuDNN's search `Find…Ex` within a workspace and return the measured algorithms, best first."""
        rows, count = (Perf * MOST)(), INT()
        operands = (self.first, POINTER(places[0]), self.second, POINTER(places[1]), self.how, self.out)
        answers = (INT(MOST), ctypes.byref(count), rows, POINTER(space[0]), SIZE(space[1]))
        self.on.call(self.direction.find, self.on.handle, *operands, POINTER(places[2]), *answers)
        return [self._row(row) for row in rows[: count.value]]

    def guessed(self) -> list[dict[str, Any]]:
        """Return the algorithms as the heuristics of `Get…_v7` rank them, best first; run no kernel."""
        rows, count = (Perf * MOST)(), INT()
        self.on.call(self.direction.guess, *self._descriptors, INT(MOST), ctypes.byref(count), rows)
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


def tensor(on: Cudnn, dims: Dims, layout: str = "nchw") -> ctypes.c_void_p:
    """Return the descriptor of a single-precision tensor of four axes. Raises LaunchError."""
    descriptor = on.make("cudnnCreateTensorDescriptor")
    on.call("cudnnSetTensor4dDescriptor", descriptor, INT(FORMATS[layout]), INT(FLOAT), *map(INT, dims))
    return descriptor


def convolution(on: Cudnn, name: str, layer: Layer) -> Convolution:
    """Return the descriptors of a layer in the direction `name`, a key of DIRECTIONS. Raises LaunchError."""
    direction, order = DIRECTIONS[name], INT(FORMATS[layer.layout])
    descriptors = {name: tensor(on, dims, layer.layout) for name, dims in (("x", layer.x), ("y", layer.y))}
    descriptors["w"] = on.make("cudnnCreateFilterDescriptor")
    on.call("cudnnSetFilter4dDescriptor", descriptors["w"], INT(FLOAT), order, *map(INT, layer.w))
    how = on.make("cudnnCreateConvolutionDescriptor")
    apart = (layer.stride, layer.stride, layer.dilation, layer.dilation)
    on.call("cudnnSetConvolution2dDescriptor", how, *map(INT, (*layer.pad, *apart, CROSS_CORRELATION, FLOAT)))
    on.call("cudnnSetConvolutionGroupCount", how, INT(layer.groups))
    first, second = (descriptors[operand] for operand in direction.reads)
    return Convolution(on, direction, first, second, how, descriptors[direction.writes])


CUDNN = Provider("cudnn", "cuda", cuda.libraries_missing, python=True)
