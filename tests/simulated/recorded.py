"""Every place that takes a C function of NVIDIA's libraries, called on a library that notes its calls."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import functools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cublas, cublaslt, cuda, cufft, cusparse, driver, pycuda, skcuda
from kernels.ops.launch import gpu
from kernels.ops.launch.problem import Calls
from tests.simulated import declarations
from tests.simulated.declarations import Kind

ROOT = Path(__file__).parents[2]
FOLDERS = ("kernels", "micro", "macro", "reports", "tests/gpu")
NAME = re.compile(r"cu(?:blas(?:Lt)?|fft|sparse)?[A-Z]\w*")
MAYBE = re.compile(
    r"\bcu(?:blas(?:Lt)?|fft|sparse)?[A-Z{]|\bgetattr\("
)  # what a file has that is worth its syntax tree
LIBRARIES = ("api", "library", "lib", "blas", "driver")  # what we call objects that `getattr` takes functions from
# Places that read like the others, whose functions are another's.
OTHERS = {
    ("kernels/libs/skcuda.py", "open_handle"): "scikit-cuda's, in Python",
    ("kernels/libs/skcuda.py", "_handle"): "scikit-cuda's, in Python",
    ("kernels/libs/skcuda.py", "_call"): "scikit-cuda's, in Python",
    ("kernels/libs/skcuda.py", "transforms"): "scikit-cuda's, in Python",
    ("kernels/libs/nvml.py", "_answer"): "pynvml's, in Python",
    ("kernels/libs/cudnn.py", "call"): "cuDNN's, which tests/simulated/cudnn_headers.py has",
    ("kernels/libs/cudnn.py", "launch"): "the same",
    ("kernels/libs/cudnn_layers.py", "_ready"): "the same",
}


class Site(NamedTuple):
    """A function of Python that takes a function of C from its library."""

    file: str
    function: str
    symbol: str


def sites() -> set[Site]:
    """All places in the code."""
    return {x for x in _everywhere() if (x.file, x.function) not in OTHERS}


def stale() -> set[tuple[str, str]]:
    """Entries of OTHERS that fit nothing in the code."""
    return set(OTHERS) - {(x.file, x.function) for x in _everywhere()}


@functools.cache
def _everywhere() -> frozenset[Site]:
    texts = ((path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in files(".py"))
    return frozenset(x for file, text in texts if MAYBE.search(text) for x in taken(file, text))


def files(*suffixes: str) -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and not path.name.startswith("test_"):
                yield path


def taken(file: str, text: str) -> Iterator[Site]:
    """The functions of C that a file takes from libraries; "?…" is one whose name cannot be read off."""
    tree = ast.parse(text)
    nodes = list(_inside(tree, "<module>"))
    patterns = {f: x for f, node in nodes if isinstance(node, ast.JoinedStr) and (x := _pattern(node))}
    for function, node in nodes:
        if isinstance(node, ast.Attribute) and NAME.fullmatch(node.attr):
            yield Site(file, function, node.attr)
        elif isinstance(node, ast.JoinedStr) and (pattern := _pattern(node)):
            yield from (Site(file, function, x) for x in _filled(tree, function, pattern))
        elif name := _by_name(node):
            if isinstance(name, ast.Constant):
                yield Site(file, function, str(name.value))
            elif function not in patterns:
                yield Site(file, function, f"?{ast.unparse(name)}")


def _inside(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node with the name of the function around it."""
    for child in ast.iter_child_nodes(node):
        yield function, child
        name = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        yield from _inside(child, name)


def _by_name(node: ast.AST) -> ast.expr | None:
    """The name, where it is `library["name"]`, or `getattr` of what is called as libraries are."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice if NAME.fullmatch(str(node.slice.value)) else None
    if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr"):
        return None
    return node.args[1] if ast.unparse(node.args[0]).rpartition(".")[2] in LIBRARIES else None


def _pattern(node: ast.JoinedStr) -> str | None:
    """f"cublasLt{kind}Create" is "cublasLt{kind}Create"; None of what is no name."""
    text = ast.unparse(node)[2:-1]
    begins = re.match(r"cu(?:blas(?:Lt)?|fft|sparse)?(?=[A-Z{])", text)
    return text if begins and re.fullmatch(r"\w+\{\w+\}\w*", text) else None


def _filled(tree: ast.AST, function: str, pattern: str) -> Iterator[str]:
    """The names that a pattern of a function's parameter stands for, by what its callers in the file pass."""
    parameter = pattern.partition("{")[2].partition("}")[0]
    found = next(x for _, x in _inside(tree, "") if isinstance(x, ast.FunctionDef) and x.name == function)
    index = [x.arg for x in found.args.args].index(parameter)
    for _, node in _inside(tree, ""):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == function:
            word = node.args[index]
            known = str(word.value) if isinstance(word, ast.Constant) else f"?{ast.unparse(word)}"
            yield pattern.replace(f"{{{parameter}}}", known)


def in_c() -> set[str]:
    """Functions of these libraries that our own C calls by name."""
    found = set()
    for path in files(".c", ".cu", ".h"):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.DOTALL)
        found |= {f"{path.name}: {x}" for x in re.findall(rf"\b({NAME.pattern})\s*\(", text)}
    return found


PLACE: Any = type(ctypes.byref(ctypes.c_int()))
# Where what is taken is called from C: the file, and the type under which it is.
IN_C = {Site("kernels/ops/launch/gpu.py", "from_c", "cuLaunchKernel"): ("kernels/ops/launch/launch.c", "launch_kernel")}


@dataclass(frozen=True)
class Passed:
    """What a call passes for one argument, by ctypes: as declarations.Kind. `value` is that of a number; `bare`:
    an address of which nothing is known, and not null."""

    ctype: Any
    to: Any = None
    several: bool = False
    value: Any = None
    bare: bool = False


@dataclass(frozen=True)
class Call:
    """One call. `returns`: as what the binding takes the answer."""

    site: Site
    arguments: tuple[Passed, ...]
    returns: Passed


def passed(x: Any) -> Passed:
    """As ctypes passes it. A Python number goes as an int."""
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
    """As what ctypes takes an answer."""
    return Passed(ctypes.c_void_p, ctypes.c_char) if restype is ctypes.c_char_p else Passed(restype)


class Function:
    """One of a Library's, taken at a site."""

    def __init__(self, library: Library, site: Site) -> None:
        self.library, self.site, self.restype = library, site, ctypes.c_int

    def __call__(self, *arguments: Any) -> Any:
        made = tuple(passed(x) for x in arguments)
        self.library.calls.append(Call(self.site, made, returned(self.restype)))
        for x in arguments:
            if isinstance(x, PLACE) and type(x._obj) is ctypes.c_void_p:
                x._obj.value = HANDLE
        if self.site.symbol in COUNTS:
            arguments[-1]._obj.value = 1
        return ANSWERS.get(self.site.symbol, 0)


HANDLE = 0x70  # what any function makes
COUNTS = ("cuDeviceGetCount", "cublasLtMatmulAlgoGetHeuristic")  # their last argument is how many there are
TEXTS = ("cublasGetStatusString", "cublasLtGetStatusString", "cusparseGetErrorString")
ANSWERS = {**dict.fromkeys(TEXTS, b"a status"), "cublasLtGetVersion": 130100}


class Library:
    """Any of the libraries: has every function, does nothing, and notes each call."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __getattr__(self, symbol: str) -> Function:
        frame = sys._getframe(1)
        while frame.f_code.co_name.startswith("<") and frame.f_back:  # a comprehension is its function's
            frame = frame.f_back
        file = Path(frame.f_code.co_filename).resolve()
        inside = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else str(file)
        return Function(self, Site(inside, frame.f_code.co_name, symbol))


def called() -> list[Call]:
    """The calls from all of them."""
    library = Library()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "load", lambda name: library)
        patch.setattr(ctypes, "CDLL", lambda name: library)
        patch.setattr(driver, "api", lambda: library)
        patch.setattr(pycuda, "load", _pycuda)
        patch.setattr(gpu, "_cubin", lambda problem, device: Path("launch.cubin"))
        _cublas(library)
        _cublaslt(library)
        _cufft(library)
        _cusparse(library)
        _driver()
        _pycuda_events(library)
        assert cuda.driver_missing() is None
        assert skcuda._soname() == "libcublas.so.0.0"
    return library.calls + [_c(site, *where) for site, where in IN_C.items()]


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


def _c(site: Site, file: str, name: str) -> Call:
    """A call from C: a compiler holds it to the type under which the function is called."""
    text = (ROOT / file).read_text()
    assert f"(({name})p->function)(" in text, f"{file}: not called as {name}"
    found = re.search(rf"typedef (\w+) \(\*{name}\)\(([^)]*)\);", text)
    assert found is not None
    none: dict[str, Any] = {"types": {}, "enums": {}, "structs": {}}
    kinds = [declarations.kind_of(none, {}, x) for x in (found[1], *found[2].split(","))]
    return Call(site, tuple(map(_from_c, kinds[1:])), _from_c(kinds[0]))


def _from_c(kind: Kind) -> Passed:
    bare = kind.ctype is ctypes.c_void_p and kind.to is None
    return Passed(kind.ctype, kind.to, several=not bare, bare=bare)
