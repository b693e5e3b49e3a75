"""NVIDIA's driver and libraries: whether they are here, and where."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from pathlib import Path
from typing import Any

from kernels.errors import Unavailable
from kernels.provider import Provider

DRIVER = "libcuda.so.1"
EXTRA = "pip install 'kernelgap[cuda13]'"


def missing() -> str | None:
    """Why no CUDA device can be opened here, told without importing anything heavy."""
    return driver_missing() or package("cupy")


def libraries_missing() -> str | None:
    """Why no library of NVIDIA's can be called here; whether one is installed shows when it is loaded."""
    return missing() or package("cuda.pathfinder")


def driver_here() -> bool:
    """Whether a driver is installed, with or without a GPU that it finds."""
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return False
    return True


def driver_missing() -> str | None:
    """Why nothing at all runs on a GPU here: it begins with the driver."""
    if not driver_here():
        return f"no NVIDIA driver: {DRIVER} is not on this machine"
    driver, count = ctypes.CDLL(DRIVER), ctypes.c_int(0)
    try:
        if code := driver.cuInit(ctypes.c_uint(0)):
            return f"the NVIDIA driver is here and finds no GPU (cuInit answers {code}): see nvidia-smi"
        if driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
            return "the NVIDIA driver is here and counts no GPU: see nvidia-smi, CUDA_VISIBLE_DEVICES"
    except AttributeError as error:
        return f"{DRIVER} is here and is no driver of NVIDIA's ({error}): see nvidia-smi"
    return None


def package(name: str, install: str = EXTRA) -> str | None:
    """Why a Python package is not here."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    return None if spec else f"{name} is not installed: {install}"


@functools.cache
def load(name: str) -> ctypes.CDLL:
    """ "cublas", "cublasLt", "cufft" …, wherever a wheel or the system has it. Raises Unavailable."""
    if reason := package("cuda.pathfinder"):
        raise Unavailable(reason)
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    try:
        library: Any = load_nvidia_dynamic_lib(name)
        return ctypes.CDLL(library.abs_path)
    except (DynamicLibNotFoundError, ValueError) as error:  # before 1.4 a name that it does not know is the latter
        if place := _installed(name):
            return ctypes.CDLL(place)
        raise Unavailable(f"lib{name} is not here: {str(error).splitlines()[0]}: {EXTRA}") from None


def _installed(name: str) -> str | None:
    """One that pathfinder does not know, as it knew no cuDNN for long: of a wheel, or of the system."""
    import ctypes.util  # here: a plan of products would wait for its modules of processes

    spec = importlib.util.find_spec("nvidia")
    folders = [Path(place, name, "lib") for place in (spec and spec.submodule_search_locations) or ()]
    wheels = sorted(str(path) for folder in folders for path in folder.glob(f"lib{name}.so.*"))
    return wheels[-1] if wheels else ctypes.util.find_library(name)


def kernel() -> tuple[str | None, str | None]:
    """CuPy's version; which instructions its libraries take they do not tell."""
    import importlib.metadata

    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        try:
            return f"CuPy {importlib.metadata.version(name)}", None
        except importlib.metadata.PackageNotFoundError:
            continue
    return "CuPy", None


CUDA_SUITE = Provider("suite", "cuda", missing)
CUDA_RUNTIME = Provider("cuda", "cuda", missing, kernel)
CUPY = Provider("cupy", "cuda", missing, kernel, python=True)
