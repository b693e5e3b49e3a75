"""Every binding of a C library of NVIDIA's, called on a library that notes its calls."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cublas, cublaslt, cuda, cudnn, cudnn_layers, cudnn_rnn, cufft, cusparse, driver, pycuda, skcuda
from kernels.ops.launch import gpu
from kernels.ops.launch.problem import Calls
from tests.simulated import declarations
from tests.simulated.declarations import Kind

ROOT = Path(__file__).parents[2]
FOLDERS = ("kernels", "micro", "macro", "reports", "tests/gpu")
TAKEN = r"\b(?:api(?:\(\))?|driver|library|load\([^()]*\))\.(cu(?:blas(?:Lt)?|fft|sparse|dnn)?[A-Z]\w*)"
NAME = re.compile(rf'{TAKEN}|\["(cu[A-Z]\w*)|"(cudnn[A-Z]\w*)"')  # as functions are taken
OTHERS = ("skcuda.py",)  # takes scikit-cuda's functions, in Python, under names like these


def named() -> set[str]:
    """Return the functions of C that the code takes from these libraries by their names."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if path.name not in OTHERS]
    texts = (path.read_text("utf-8") for path in paths if not path.name.startswith("test_"))
    return {symbol for text in texts for found in NAME.findall(text) for symbol in found if symbol}


PLACE: Any = type(ctypes.byref(ctypes.c_int()))


@dataclass(frozen=True)
class Passed:
    """What a call passes for one argument, by ctypes: as declarations.Kind."""

    ctype: Any
    to: Any = None
    several: bool = False
    value: Any = None  # of a number
    bare: bool = False  # an address of which nothing is known, and not null


@dataclass(frozen=True)
class Call:
    """One call of a function. `returns`: as what the binding takes the answer."""

    symbol: str
    arguments: tuple[Passed, ...]
    returns: Passed


def passed(x: Any) -> Passed:
    """Return an argument as ctypes passes it. A Python number goes as an int."""
    if isinstance(x, int):
        return Passed(ctypes.c_int, value=x)
    if x is None or isinstance(x, bytes):
        return Passed(ctypes.c_void_p, None if x is None else ctypes.c_char)
    if isinstance(x, PLACE):
        return Passed(ctypes.c_void_p, type(x._obj))
    if isinstance(x, ctypes.Array):
        return Passed(ctypes.c_void_p, type(x), several=True)
    return Passed(type(x), value=x.value, bare=type(x) is ctypes.c_void_p and bool(x.value))


def returned(restype: Any) -> Passed:
    """Return an answer as ctypes takes it."""
    return Passed(ctypes.c_void_p, ctypes.c_char) if restype is ctypes.c_char_p else Passed(restype)


class Function:
    """A function of a Library."""

    def __init__(self, library: Library, symbol: str) -> None:
        self.library, self.symbol, self.restype = library, symbol, ctypes.c_int

    def __call__(self, *arguments: Any) -> Any:
        self.library.calls.append(Call(self.symbol, tuple(map(passed, arguments)), returned(self.restype)))
        for x in arguments:
            if isinstance(x, PLACE) and type(x._obj) is ctypes.c_void_p:
                x._obj.value = HANDLE
        if self.symbol in COUNTS:
            arguments[-1]._obj.value = 1
        return ANSWERS.get(self.symbol, 0)


HANDLE = 0x70  # what any function makes
COUNTS = ("cuDeviceGetCount", "cublasLtMatmulAlgoGetHeuristic")  # their last argument is how many there are
TEXTS = ("cublasGetStatusString", "cublasLtGetStatusString", "cusparseGetErrorString")
ANSWERS = {**dict.fromkeys(TEXTS, b"a status"), "cublasLtGetVersion": 130100}


class Library:
    """Any of the libraries: has every function, does nothing, and notes each call."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __getattr__(self, symbol: str) -> Function:
        return Function(self, symbol)


def called() -> list[Call]:
    """Return the calls of all bindings."""
    library = Library()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "load", lambda name: library)
        patch.setattr(cudnn, "load", lambda: library)
        patch.setattr(ctypes, "CDLL", lambda name: library)
        patch.setattr(driver, "api", lambda: library)
        patch.setattr(pycuda, "load", _pycuda)
        patch.setattr(gpu, "_cubin", lambda problem, device: Path("launch.cubin"))
        _cublas(library)
        _cublaslt(library)
        _cudnn(library)
        _cufft(library)
        _cusparse(library)
        _driver()
        _pycuda_events(library)
        assert cuda.driver_missing() is None
        assert skcuda._soname() == "libcublas.so.0.0"
    return [*library.calls, _c("cuLaunchKernel", "kernels/ops/launch/launch.c", "launch_kernel")]


def _cublas(library: Any) -> None:
    on = cublas.open_handle(0x40, 0x1000, library)
    for mode in (cublas.DEFAULT_MATH, cublas.PEDANTIC_MATH, cublas.TF32_MATH):
        on.math(mode)
    places = (0x100, 4), (0x200, 4), (0x300, 4)
    for flags in ((cublas.N, cublas.T), (cublas.T, cublas.N)):
        cublas.sgemm(on, flags, (2, 3, 4), (1.0, 0.5), *places)()
        for dtype in cublas.TYPES:
            cublas.gemm_ex(on, dtype, flags, (2, 3, 4), (1.0, 0.5), *places)()
    cublas.sgeam_transpose(on, 2, 3, places[0], places[1])()
    strided = (0x100, 4, 16), (0x200, 4, 16), (0x300, 4, 16)
    for numbers, flag in (("real", cublas.T), ("complex", cublas.C)):
        cublas.batched(on, numbers, (flag, cublas.N), (2, 3, 4), (1.0, 0.0), *strided, 5)()
    cublas.kernel()
    with contextlib.suppress(LaunchError):
        on.check("a call", cublaslt.NOT_SUPPORTED)


def _cublaslt(library: Any) -> None:
    on = cublaslt.open_handle(0x40, 0x1000, 64, library)
    for dtype in cublas.TYPES:
        product = cublaslt.plan(on, dtype, (cublas.T, cublas.N), (2, 3, 4), (4, 4, 2), 64, 2)[0]
        cublaslt.matmul(on, product, (1.0, 0.5), 0x100, 0x200, 0x300)()
    del product  # which destroys its descriptors
    with contextlib.suppress(LaunchError):
        on.check("a call", cublaslt.NOT_SUPPORTED)


def _cudnn(library: Any) -> None:
    on = cudnn.open_handle(library, 0x40)
    layer = cudnn.Layer((2, 4, 9, 7), (6, 2, 3, 3), (2, 6, 9, 7), (1, 1), groups=2)
    for name in cudnn.DIRECTIONS:
        made = cudnn.convolution(on, name, layer)
        for math in cudnn.MATHS:
            made.math(math)
        made.workspace(1)
        made.launch(1, (0x100, 0x200, 0x300), (0x400, 64))()
        made.searched((0x100, 0x200, 0x300), (0x400, 64))
        made.guessed()
    _cudnn_layers(on)
    _cudnn_rnn(on)
    for status, error in ((3000, Unavailable), (5000, LaunchError)):
        with pytest.raises(error):
            on.check("a call", status)
    on.api.cudnnGetVersion.restype = ctypes.c_size_t
    assert cudnn.kernel()[0] == "cuDNN 0.0.0"


def _cudnn_layers(on: cudnn.Cudnn) -> None:
    x, y = ((cudnn.tensor(on, (2, 3, edge, edge)), 0x100 * edge) for edge in (4, 2))
    window, row = cudnn_layers.pooling(on, "max", 2, 2), cudnn_layers.of_channels(on, x[0])
    response = cudnn_layers.response(on, 5, 1e-4, 0.75, 2.0)
    pair = (0x900, 0xA00)
    adding, rectifier = cudnn_layers.adding(on), cudnn_layers.rectifier(on)
    states, mask = (0xB00, cudnn_layers.state_bytes(on)), (0xC00, cudnn_layers.mask_bytes(on, x[0]))
    dropping = cudnn_layers.dropping(on, 0.5, states, 1)
    for call in (
        cudnn_layers.pool(on, window, x, y),
        cudnn_layers.pool_gradient(on, window, y, y, x, x),
        cudnn_layers.normalize(on, x, x, row, pair, 1e-5, pair),
        cudnn_layers.normalize_frozen(on, x, x, row, pair, 1e-5, pair),
        cudnn_layers.normalize_gradient(on, x, x, x, row, 0x900, pair, 1e-5, pair),
        cudnn_layers.respond(on, response, x, x),
        cudnn_layers.respond_gradient(on, response, x, x, x, x),
        cudnn_layers.add(on, adding, x, x, x),
        cudnn_layers.rectify(on, rectifier, x, x),
        cudnn_layers.rectify_gradient(on, rectifier, x, x, x, x),
        cudnn_layers.bias_gradient(on, x, x),
        cudnn_layers.drop(on, dropping, x, x, mask),
        cudnn_layers.drop_gradient(on, dropping, x, x, mask),
    ):
        call()


def _cudnn_rnn(on: cudnn.Cudnn) -> None:
    room = cudnn_rnn.Room(0x100, 0x200, 0x300, 0x400, 0x500)
    ways = (
        ("rnn", "tnc", "inputs", "standard"),
        ("lstm", "ntc", "inputs", "persistent"),
        ("gru", "tnc", "both", "standard"),
    )
    for training, words in itertools.product((False, True), ways):
        made = cudnn_rnn.recurrence(on, cudnn_rnn.Layer(2, 3, 4, 5, *words, training))
        assert made.places(0x200, 1) == (HANDLE, HANDLE)
        made.forward(room, 0x600, 0x700)()
        made.inputs_gradient(room, 0x700, 0x800, 0x900)()
        made.weights_gradient(room, 0x600, 0x700)()


def _cufft(library: Any) -> None:
    for inverse in (False, True):
        made = cufft.plan((4, 6), 5, inverse, 0x40, library)
        made.work_in(0x1000)
        made.call(0x100, 0x200)()
    cufft.kernel()


def _cusparse(library: Any) -> None:
    on = cusparse.open_handle(0x40, library)
    weights = cusparse.csr(on, (7, 11), 5, (0x100, 0x200, 0x300))
    for algorithm in cusparse.ALGORITHMS:
        cusparse.area(on, algorithm, weights, 4)
        cusparse.product(on, algorithm, weights, 4, 0x400, 0x500, 0x600)()
    cusparse.kernel()
    for status in cusparse.REFUSALS:
        with contextlib.suppress(Unavailable):
            on.check("a call", status)


def _driver() -> None:
    kernel = driver.function(Path("launch.cubin"), "launch_empty")
    driver.launch(driver.prepared(kernel, (1, 2, 3), (4, 5, 6), 0x40, (0x100, 0x200)))()
    device = SimpleNamespace(stream=SimpleNamespace(ptr=0x40))
    buffers = [SimpleNamespace(data=SimpleNamespace(ptr=0x100))]
    gpu.from_ctypes(Calls("empty", 1), device, None)(buffers).call()


def _pycuda() -> Any:
    return SimpleNamespace(Error=LaunchError, Stream=lambda flags: SimpleNamespace(handle=0x50))


def _pycuda_events(library: Any) -> None:
    on = pycuda.open_side(0x40, library)
    kernel = SimpleNamespace(prepare=len, prepared_async_call=lambda *words, shared_size: None)
    pycuda.launch(on, kernel, (1, 1), (1, 1, 1), [("P", 0x100)])()


def _c(symbol: str, file: str, name: str) -> Call:
    """A call from C: a compiler holds it to the type under which the function is called."""
    text = (ROOT / file).read_text()
    assert f"(({name})p->function)(" in text, f"{file}: not called as {name}"
    found = re.search(rf"typedef (\w+) \(\*{name}\)\(([^)]*)\);", text)
    assert found is not None
    none: dict[str, Any] = {"types": {}, "enums": {}, "structs": {}}
    kinds = [declarations.kind_of(none, {}, x) for x in (found[1], *found[2].split(","))]
    return Call(symbol, tuple(map(_from_c, kinds[1:])), _from_c(kinds[0]))


def _from_c(kind: Kind) -> Passed:
    bare = kind.ctype is ctypes.c_void_p and kind.to is None
    return Passed(kind.ctype, kind.to, several=not bare, bare=bare)
