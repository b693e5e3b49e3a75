"""NVIDIA's driver and libraries: whether they are installed, and how to load them."""

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
    """Return why no CUDA device can be opened here, or None if it can; does not import CuPy."""
    return driver_missing() or package("cupy")


def libraries_missing() -> str | None:
    """Return why no NVIDIA library can be called here, or None; a missing library fails only at `load`."""
    return missing() or package("cuda.pathfinder")


def driver_here() -> bool:
    """Return whether a driver is installed, with or without a GPU."""
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return False
    return True


def driver_missing() -> str | None:
    """Return why nothing can run on a GPU here (no driver, no GPU), or None if it can."""
    if not driver_here():
        return f"no NVIDIA driver: {DRIVER} not found"
    driver, count = ctypes.CDLL(DRIVER), ctypes.c_int(0)
    try:
        if code := driver.cuInit(ctypes.c_uint(0)):
            return f"the NVIDIA driver is installed but finds no GPU (cuInit returned {code}): see nvidia-smi"
        if driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
            return "the NVIDIA driver is installed but reports 0 GPUs: see nvidia-smi, CUDA_VISIBLE_DEVICES"
    except AttributeError as error:
        return f"{DRIVER} exists but is not NVIDIA's driver ({error}): see nvidia-smi"
    return None


def package(name: str, install: str = EXTRA) -> str | None:
    """Return why a Python package is missing, or None if it is installed; does not import it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    return None if spec else f"{name} is not installed: {install}"


@functools.cache
def load(name: str) -> ctypes.CDLL:
    """Load "cublas", "cublasLt", "cufft" … from a wheel or from the system. Raises Unavailable."""
    if reason := package("cuda.pathfinder"):
        raise Unavailable(reason)
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    try:
        library: Any = load_nvidia_dynamic_lib(name)
        return ctypes.CDLL(library.abs_path)
    except (DynamicLibNotFoundError, ValueError) as error:  # before pathfinder 1.4 an unknown name is a ValueError
        if place := _installed(name):
            return ctypes.CDLL(place)
        raise Unavailable(f"lib{name} cannot be loaded: {str(error).splitlines()[0]}: {EXTRA}") from None


def _installed(name: str) -> str | None:
    """Return the path of a library that pathfinder does not know, in a wheel or the system, or None."""
    import ctypes.util  # imported here because it imports subprocess, for which plans would wait

    spec = importlib.util.find_spec("nvidia")
    folders = [Path(place, name, "lib") for place in (spec and spec.submodule_search_locations) or ()]
    wheels = sorted(str(path) for folder in folders for path in folder.glob(f"lib{name}.so.*"))
    return wheels[-1] if wheels else ctypes.util.find_library(name)


def kernel() -> tuple[str | None, str | None]:
    """Return CuPy's version, and no instruction set."""
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
