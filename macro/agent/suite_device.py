"""Devices of kernels-only: the CPU or a GPU.

On a GPU, CuPy replaces NumPy for all passes without a kernel of the suite, in the stream of the suite's kernels; so far
this has run only on a simulated device.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kernels import devices
from kernels.errors import SuiteError
from kernels.libs import cublas, cudnn, cufft
from kernels.ops.gemm import fastest

ROUNDS = 5  # timed calls of a candidate
HERE = Path(__file__).parent


def place(job: dict[str, Any]) -> Any:
    """Return the name of the kernels' device; the simulated device `fake` is the CPU."""
    name = job.get("device", "cpu")
    return "cpu" if name == "fake" else name


def opened(job: dict[str, Any]) -> Any:
    """Open the job's device. Raises NotImplementedError if it is missing."""
    reason = devices.missing(place(job))
    if reason:
        raise NotImplementedError(reason)
    try:
        device: Any = devices.open_device(place(job))
    except SuiteError as error:
        raise NotImplementedError(str(error)) from None
    if place(job) != "cpu":
        on(device.cp)
    return device


def on(cupy: Any) -> None:
    """Replace NumPy by CuPy in the modules of layers, for the rest of this process."""
    import numpy

    ways = {
        "np": cupy,
        "aligned": lambda shape: cupy.zeros(tuple(shape), numpy.float32),
        "copied": lambda array: cupy.asarray(array),
        "host": lambda array: array.get(),
    }
    for path in HERE.rglob("*.py"):
        module = sys.modules.get(path.stem)
        if getattr(module, "np", None) is numpy:
            for name in set(ways) & set(vars(module)):
                setattr(module, name, ways[name])


def installed(package: str, otherwise: str | None = None) -> Any:
    """Return a package's version without loading the package, or `otherwise`."""
    try:
        return version(package)
    except PackageNotFoundError:
        return otherwise


def facts(device: Any) -> dict[str, Any]:
    """Return a GPU's model, architecture and driver, and the versions of its libraries."""

    def release(library: Any) -> Any:
        try:
            return library.kernel()[0]
        except Exception as error:  # missing or broken
            return str(error)

    cards = device.describe()
    libraries = {library.__name__.rpartition(".")[2]: release(library) for library in (cublas, cudnn, cufft)}
    cupy = getattr(device.cp, "__version__", None) or installed("cupy-cuda13x")
    return dict(libraries, model=cards["model"], arch=cards["isa"], driver=cards["driver"], cupy=cupy)


def address(array: Any) -> Any:
    """Return the address of an array's first element, on any device."""
    place_on_gpu = getattr(array.data, "ptr", None)
    return array.__array_interface__["data"][0] if place_on_gpu is None else place_on_gpu


def seconds(device: Any, call: Callable[..., Any], warm: bool) -> Any:
    """Return the median seconds of a call; the first call, which loads kernels, does not count.

    With `warm` the GPU first runs for a while, as an idle GPU is at its lowest clock.
    """
    end = time.perf_counter() + (fastest.WARM if warm else 0.0)
    call()
    device.sync()
    while time.perf_counter() < end:
        call()
        device.sync()
    return sorted(fastest.held(device, call) for _ in range(ROUNDS))[ROUNDS // 2]
