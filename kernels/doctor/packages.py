"""Python packages and bindings to a GPU, checked by metadata and files without importing a package."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from kernels.errors import summary
from kernels.libs import cuda, mkl, numba, nvml, onednn, pycuda, skcuda, torch_cuda


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an installation: a package, a library or a tool, present or not."""

    here: bool
    version: str | None = None
    reason: str | None = None  # why it is not here
    install: str | None = None  # command that installs or repairs it


@dataclass(frozen=True, slots=True)
class Wanted:
    """A package that the doctor looks for."""

    there: Callable[[], bool]  # whether its module or library exists
    distributions: tuple[str, ...]  # names under which it is installed
    install: str


def _module(name: str) -> Callable[[], bool]:
    def there() -> bool:
        spec = find_spec(name)
        return spec is not None and spec.origin is not None  # else a namespace that a removed package left behind

    return there


def _plain(name: str, module: str | None = None) -> Wanted:
    return Wanted(_module(module or name), (name,), f"pip install {name}")


OPTIONAL = {
    "torch": Wanted(_module("torch"), ("torch",), "pip install torch (for the CPU build see README)"),
    "mkl": Wanted(lambda: mkl.missing() is None, ("mkl",), "pip install mkl"),  # libraries, no module
    "numba": _plain("numba"),
    "cupy": Wanted(
        _module("cupy"), ("cupy-cuda13x", "cupy-cuda12x", "cupy"), "pip install cupy-cuda13x (CUDA 12: -cuda12x)"
    ),
    "scikit-cuda": _plain("scikit-cuda", "skcuda"),
    **{name: _plain(name) for name in ("pycuda", "pyopencl", "pyfftw", "ncnn", "onnxruntime")},
    onednn.PACKAGE: Wanted(lambda: onednn.missing() is None, (onednn.PACKAGE,), f"pip install {onednn.PIN}"),
}
BASE = {
    name: _plain(name)
    for name in ("numpy", "scipy", "msgspec", "rich", "threadpoolctl", "psutil", "matplotlib", "cloudpickle")
}
BINDINGS: dict[str, Callable[[], str | None]] = {
    "CUDA driver": cuda.driver_missing,
    **dict.fromkeys(("cuBLAS", "cuBLASLt", "cuDNN", "cuFFT", "cuSPARSE"), cuda.libraries_missing),
    "CuPy": cuda.missing,
    "PyCUDA": pycuda.missing,
    "scikit-cuda": skcuda.missing,
    "Numba for CUDA": numba.cuda_missing,
    "PyTorch for CUDA": torch_cuda.missing,
    "NVML": nvml.missing,
}


def bindings() -> dict[str, str | None]:
    """Return why a binding to a GPU cannot be used, by the binding's name; None if it can."""
    return {name: _reason(missing) for name, missing in BINDINGS.items()}


def _reason(missing: Callable[[], str | None]) -> str | None:
    try:
        return missing()
    except Exception as error:  # a damaged package raises anything
        return summary(error)


def package(wanted: Wanted) -> Part:
    """Return a package's state (here, half-installed or missing) and version. Imports nothing."""
    try:
        distribution = _distribution(wanted.distributions)
        there = wanted.there()
        version: str | None = distribution.metadata["Version"] if distribution else None
        gone = _gone(distribution) if distribution else []
    except Exception as error:  # broken metadata and finders raise anything
        return _half(summary(error), wanted)
    if distribution is None:
        return _half("no metadata", wanted) if there else Part(False, reason="not installed", install=wanted.install)
    if not version:
        return _half("metadata without a version", wanted)
    if not there:
        return _half(f"metadata of {version} without the package", wanted)
    if gone:
        return _half(f"{len(gone)} of its libraries missing, e.g. {os.path.basename(gone[0])}", wanted)
    return Part(True, version)


def _half(what: str, wanted: Wanted) -> Part:
    again = wanted.install.replace("pip install", "pip install --force-reinstall")
    return Part(False, reason=f"half-installed: {what}", install=again)


def _distribution(names: tuple[str, ...]) -> importlib.metadata.Distribution | None:
    for name in names:
        try:
            return importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _gone(distribution: importlib.metadata.Distribution) -> list[str]:
    """Return the shared libraries that a package's RECORD lists and that are not on the disk."""
    files = (line.partition(",")[0] for line in (distribution.read_text("RECORD") or "").splitlines())
    libraries = (file for file in files if file.endswith((".so", ".dylib", ".pyd")) or ".so." in file)
    return [file for file in libraries if not os.path.exists(str(distribution.locate_file(file)))]
