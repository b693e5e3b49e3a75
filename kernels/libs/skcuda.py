"""cuBLAS and cuFFT as called by scikit-cuda 0.5.3 (2019).

The package cannot be imported unchanged. scikit-cuda requires pkg_resources, which setuptools no longer brings; names
of NumPy 1; libcuda.so and libcublas.so, where drivers and wheels have libcuda.so.1 and libcublas.so.13; and a SONAME
with two numbers, without which it creates a cuBLAS handle during the import. Stand-ins for all these are in place
during the import, and removed afterwards.

scikit-cuda sets neither math mode nor workspace, so both are cuBLAS's defaults."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import re
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kernels.errors import LaunchError, Unavailable, summary
from kernels.libs import cuda, cufft
from kernels.libs.cublas import N, T
from kernels.provider import Provider

EXTRA = "pip install 'kernelgap[skcuda]'"
AGAIN = "pip install --force-reinstall --no-deps scikit-cuda==0.5.3"
LIBRARIES = ("cudart", "cublas", "cufft", "cusolver", "cusparse")
MAJOR, MINOR = 0, 1  # libraryPropertyType


def missing() -> str | None:
    """Return why scikit-cuda, which needs no CuPy, cannot be used here, or None; does not import it."""
    return cuda.driver_missing() or cuda.package("skcuda", EXTRA) or cuda.package("cuda.pathfinder")


def load(part: str = "cublas") -> Any:
    """Import `skcuda.cublas`, or another part; all but cublas and cufft need PyCUDA. Raises Unavailable."""
    if reason := cuda.package("skcuda", EXTRA):
        raise Unavailable(reason)
    try:
        return _import(part)
    except Unavailable:
        raise
    except Exception as error:  # whatever an old package raises on a new Python
        raise Unavailable(f"scikit-cuda is installed but cannot be used ({summary(error)}): {AGAIN}") from None


def _import(part: str) -> Any:
    import numpy as np

    soname = _soname()  # found here because scikit-cuda swallows exceptions where it needs it
    gone = {"float": float, "typeDict": _types(np), "sctypes": _kinds(np)}
    with (
        warnings.catch_warnings(),
        _lent(sys.modules, pkg_resources=_pkg_resources()),
        _lent(vars(np), **gone),
        _lent(vars(ctypes.cdll), LoadLibrary=_open),
    ):
        warnings.simplefilter("ignore")  # its invalid escape sequences warn
        utils = importlib.import_module("skcuda.utils")
        with _lent(vars(utils), find_lib_path=_path, get_soname=lambda path: soname):
            module = importlib.import_module(f"skcuda.{part}")
    _keep(np, gone)
    return module


@contextlib.contextmanager
def _lent(where: dict[str, Any], **values: Any) -> Iterator[None]:
    """Set names in a namespace while the context is active, then restore their values."""
    before = {name: where[name] for name in values if name in where}
    where.update(values)
    try:
        yield
    finally:
        for name in values:
            where.pop(name, None)
        where.update(before)


def _keep(np: Any, gone: dict[str, Any]) -> None:
    """Give scikit-cuda's modules a copy of NumPy with the removed names, which its functions use."""
    old = types.ModuleType("numpy")
    vars(old).update(vars(np) | gone)
    for name, module in list(sys.modules.items()):
        if name.startswith("skcuda.") and vars(module).get("np") is np:
            vars(module)["np"] = old


def _pkg_resources() -> types.ModuleType:
    """Return a stand-in for pkg_resources with the functions that scikit-cuda uses.

    The real module would also require PyCUDA, which cuBLAS does not need."""
    import importlib.metadata  # fifteen milliseconds: not for every plan

    module: Any = types.ModuleType("pkg_resources")
    module.declare_namespace = lambda name: None
    module.require = lambda name: [types.SimpleNamespace(version=importlib.metadata.version(name))]
    return module  # type: ignore[no-any-return]


def _types(np: Any) -> dict[Any, Any]:
    return {**np.sctypeDict, **{letter: np.dtype(letter).type for letter in np.typecodes["All"]}}


def _kinds(np: Any) -> dict[str, list[Any]]:
    letters = {"int": "Integer", "uint": "UnsignedInteger", "float": "Float", "complex": "Complex"}
    return {kind: [np.dtype(x).type for x in np.typecodes[name]] for kind, name in letters.items()}


def _open(name: str) -> ctypes.CDLL:
    """Load a library by the name that it had when scikit-cuda was written.

    Returns a new ctypes handle, because scikit-cuda sets argument types on it, and `cuda.load` shares its handles."""
    match = re.match(r"lib(\w+)\.so", name)
    stem = match[1] if match else ""
    if stem == "cuda":
        return ctypes.CDLL(cuda.DRIVER)
    return ctypes.CDLL(_path(stem) if stem in LIBRARIES else name)


def _path(name: str) -> str:
    return str(cuda.load(name)._name)


def _soname() -> str:
    """Return libcublas's SONAME with major and minor version, without a handle. Raises Unavailable."""
    library, numbers = cuda.load("cublas"), (ctypes.c_int(), ctypes.c_int())
    for which, number in zip((MAJOR, MINOR), numbers, strict=True):
        if status := library.cublasGetProperty(ctypes.c_int(which), ctypes.byref(number)):
            raise Unavailable(f"cublasGetProperty returned {status}: {cuda.EXTRA}")
    return f"libcublas.so.{numbers[0].value}.{numbers[1].value}"


@dataclass(frozen=True)
class Handle:
    """A cuBLAS handle that scikit-cuda created, on one stream; `api` is the module `skcuda.cublas`."""

    api: Any
    handle: int
    version: str
    stream: int


def open_handle(stream: int) -> Handle:
    """Return the cached handle of the stream at this address. Raises Unavailable."""
    api = load()
    try:
        handle, version = _handle(api, stream)
        api.cublasSetStream(handle, stream)  # anew: the address may be that of a stream made since
    except api.cublasError as error:
        raise Unavailable(f"scikit-cuda raises {_name(error)}: no usable GPU in this process") from None
    return Handle(api, handle, version, stream)


@functools.cache
def _handle(api: Any, stream: int) -> tuple[int, str]:
    """Return the handle for a stream, created on first use, and cuBLAS's version."""
    handle: int = api.cublasCreate()
    major, rest = divmod(api.cublasGetVersion(handle), 10000)
    return handle, f"cuBLAS {major}.{rest // 100}.{rest % 100}"


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
    alpha, beta = scale
    return _call(on.api, "cublasSgemm", (on.handle, *flags, *mnk, alpha, *a, *b, beta, *c))


def sgeam_transpose(
    on: Handle, rows: int, cols: int, source: tuple[int, int], target: tuple[int, int]
) -> Callable[[], None]:
    """Return a call of target (rows×cols, column-major) = source transposed; operands are (address, ld)."""
    arguments = (on.handle, T, N, rows, cols, 1.0, *source, 0.0, *target, *target)
    return _call(on.api, "cublasSgeam", arguments)


@dataclass(frozen=True)
class Plan:
    """A cuFFT plan made by scikit-cuda, with cuFFT's own work area, destroyed with the object."""

    api: Any
    number: Any
    inverse: bool

    def call(self, source: int, target: int) -> Callable[[], None]:
        """Return a call of the transform between two addresses; the inverse overwrites its source."""
        return _call(
            self.api, "cufftExecC2R" if self.inverse else "cufftExecR2C", (self.number, source, target), "cufftError"
        )


def transforms(lengths: tuple[int, int], count: int, inverse: bool, stream: int) -> Plan:
    """Return a plan of `count` contiguous images of `lengths` (rows, columns). Raises Unavailable."""
    api = load("cufft")
    arguments = cufft.layout(lengths, count, inverse, behind=True)
    values = [ctypes.addressof(x) if isinstance(x, ctypes.Array) else x.value for x in arguments]
    try:
        number = api.cufftPlanMany(*values)
        api.cufftSetStream(number, stream)
    except api.cufftError as error:
        raise Unavailable(f"scikit-cuda raises {_name(error)} for a plan of {count} × {lengths}") from None
    del arguments  # the arrays were read until here
    plan = Plan(api, number, inverse)
    weakref.finalize(plan, api.cufftDestroy, number).atexit = False  # then the context may be gone
    return plan


def _call(api: Any, name: str, arguments: tuple[Any, ...], failure: str = "cublasError") -> Callable[[], None]:
    """Return a function without arguments that calls `name` of `api`, and raises LaunchError on failure."""
    function, failed = getattr(api, name), getattr(api, failure)

    def call() -> None:
        try:
            function(*arguments)
        except failed as error:
            raise LaunchError(f"{name} of scikit-cuda raises {_name(error)}") from None

    return call


def _name(error: Exception) -> str:
    """Return an exception's class name, because scikit-cuda has a class per status and no text."""
    return type(error).__name__


SKCUDA = Provider("skcuda", "cuda", missing, python=True)
