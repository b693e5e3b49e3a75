"""The CUDA driver's C interface: kernels of a cubin, launched through ctypes alone.

A CUDA context must be current, which is so once the cuda device is open."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.errors import LaunchError
from kernels.libs import cuda

POINTER, UNSIGNED = ctypes.c_void_p, ctypes.c_uint


@functools.cache
def api() -> Any:
    """Return libcuda as a ctypes library."""
    return ctypes.CDLL(cuda.DRIVER)


def check(name: str, status: int) -> None:
    """Raise LaunchError for a status other than success."""
    if status:
        raise LaunchError(f"{name} returned {status}")


def function(cubin: Path, name: str) -> ctypes.c_void_p:
    """Return a kernel of a cubin, in the current context, for the life of the process. Raises LaunchError."""
    module, kernel = POINTER(), POINTER()
    check("cuModuleLoad", api().cuModuleLoad(ctypes.byref(module), str(cubin).encode()))
    check("cuModuleGetFunction", api().cuModuleGetFunction(ctypes.byref(kernel), module, name.encode()))
    return kernel


@dataclass(frozen=True)
class Prepared:
    """The arguments of one cuLaunchKernel."""

    words: tuple[Any, ...]  # in the driver's order
    parameters: Any  # the array `kernelParams` of addresses of the kernel's arguments
    keep: tuple[Any, ...]  # the kernel's arguments


def prepared(
    kernel: ctypes.c_void_p, grid: Sequence[int], block: Sequence[int], stream: int, addresses: Sequence[int]
) -> Prepared:
    """Return the launch arguments of a kernel whose parameters are all addresses of device memory."""
    values = tuple(POINTER(address) for address in addresses)
    parameters = (POINTER * len(values))(*(ctypes.addressof(value) for value in values))
    words = (kernel, *map(UNSIGNED, (*grid, *block)), UNSIGNED(0), POINTER(stream), parameters, POINTER(None))
    return Prepared(words, parameters, values)


def launch(ready: Prepared) -> Callable[[], None]:
    """Return a function without arguments that makes one cuLaunchKernel. It raises LaunchError."""
    start = api().cuLaunchKernel

    def call() -> None:
        if status := start(*ready.words):
            check("cuLaunchKernel", status)

    return call
