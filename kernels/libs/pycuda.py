"""PyCUDA: kernels of a cubin through its driver interface, in the device's primary context.

PyCUDA keeps a stack of contexts per thread, so load and launch on the main thread."""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

from kernels.errors import LaunchError, Unavailable, summary
from kernels.libs import cuda
from kernels.provider import Provider

EXTRA = "pip install 'kernelgap[pycuda]'"
REBUILD = "pip install --force-reinstall --no-cache-dir --no-deps pycuda (builds it for the installed CUDA)"
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
TIES = 2  # events that order PyCUDA's stream and the caller's, each an entry in a queue as a kernel is
ON_REQUEST = 48 << 10  # bytes of shared memory per block, beyond which a kernel must set an attribute
POINTER, UNSIGNED = ctypes.c_void_p, ctypes.c_uint


def missing() -> str | None:
    """Return why PyCUDA, which needs no CuPy, cannot be used here, or None if it can; import nothing."""
    return cuda.driver_missing() or cuda.package("pycuda", EXTRA)


def load() -> Any:
    """Import `pycuda.driver` and make the current device's primary context current. Raises Unavailable.

    That context is also CuPy's and cuBLAS's; device 0 is taken if none is current yet. `pycuda.autoprimaryctx` would
    take the device from $CUDA_DEVICE and a file in the home folder."""
    if reason := cuda.package("pycuda", EXTRA):
        raise Unavailable(reason)
    try:
        driver: Any = importlib.import_module("pycuda.driver")
        driver.init()
        _enter(driver)
    except Exception as error:  # built for another CUDA, half-installed, no GPU
        raise Unavailable(f"pycuda is installed but cannot be used ({summary(error)}): {REBUILD}") from None
    return driver


def _enter(driver: Any) -> None:
    try:
        device = driver.Context.get_device()
    except driver.Error:  # no context is current
        device = driver.Device(0)
    context = _primary(device)
    if driver.Context.get_current() != context:
        context.push()


@functools.cache
def _primary(device: Any) -> Any:
    """Return a device's primary context, retained once and detached before Python exits.

    PyCUDA aborts the process at exit if a context is on its stack, and would release a primary context that was
    garbage-collected by the call for a context that it created."""
    context = device.retain_primary_context()
    atexit.register(context.detach)
    return context


def function(cubin: Path, name: str) -> Any:
    """Return a kernel of a cubin, in the current context, and keep its module. Raises Unavailable, LaunchError."""
    driver = load()
    try:
        return driver.module_from_file(str(cubin)).get_function(name)
    except driver.Error as error:
        raise LaunchError(f"{name} of {cubin.name}: {summary(error)}") from None


@dataclass(frozen=True)
class Side:
    """A stream of PyCUDA, and the two events that order it with the caller's stream.

    PyCUDA launches only on streams that it created or on the legacy stream, and neither is ordered with the caller's
    non-blocking stream. So a launch waits for the caller's stream by the event `fork`, and the caller's stream for
    the launch by `join`. In a captured graph both are edges and cost nothing; otherwise they cost microseconds."""

    driver: Any
    api: Any  # libcuda, because PyCUDA's events expose no handle
    caller: int  # handle of the caller's stream
    stream: Any  # PyCUDA's stream
    fork: ctypes.c_void_p
    join: ctypes.c_void_p

    def check(self, name: str, status: int) -> None:
        """Raise LaunchError for a status other than success."""
        if status:
            raise LaunchError(f"{name} returned {status}")


def open_side(caller: int, library: Any = None) -> Side:
    """Return a stream of PyCUDA, ordered with the stream whose handle is `caller`. Raises Unavailable."""
    driver = load()
    api = library or ctypes.CDLL(cuda.DRIVER)
    fork, join = POINTER(), POINTER()
    for event in (fork, join):
        if status := api.cuEventCreate(ctypes.byref(event), UNSIGNED(NO_TIMING)):
            raise Unavailable(f"cuEventCreate returned {status}: no usable GPU in this process")
    return Side(driver, api, caller, driver.Stream(NON_BLOCKING), fork, join)


def launch(
    on: Side,
    kernel: Any,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    arguments: Sequence[tuple[str, float]],
    shared: int = 0,
    count: int = 1,
) -> Callable[[], None]:
    """Return a call of `count` launches of a kernel from `function`, ordered with the caller's stream.

    `arguments`: pairs of a `struct` format letter and a value: ("P", address), ("q", int64), ("f", float32); all
    launches of a kernel object use the same letters. `shared`: bytes of dynamic shared memory per block. Raises
    LaunchError; so does the call."""
    failed: type[Exception] = on.driver.Error
    try:
        kernel.prepare([letter for letter, _ in arguments])
        if shared > ON_REQUEST:
            kernel.set_attribute(on.driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
    except failed as error:
        raise LaunchError(summary(error)) from None
    start = partial(kernel.prepared_async_call, grid, block, on.stream, *(x for _, x in arguments), shared_size=shared)
    aside = _after(on, on.fork, on.caller, on.stream.handle)
    back = _after(on, on.join, on.stream.handle, on.caller)

    def call() -> None:
        aside()
        try:
            for _ in repeat(None, count):
                start()
        except failed as error:
            raise LaunchError(summary(error)) from None
        back()

    return call


def _after(on: Side, event: ctypes.c_void_p, first: int, then: int) -> Callable[[], None]:
    """Return a call that makes stream `then` wait for the work enqueued on `first` when the call runs."""
    record, wait, check = on.api.cuEventRecord, on.api.cuStreamWaitEvent, on.check
    ahead, behind, none = POINTER(first), POINTER(then), UNSIGNED(0)

    def call() -> None:
        check("cuEventRecord", record(event, ahead))
        check("cuStreamWaitEvent", wait(behind, event, none))

    return call


PYCUDA = Provider("pycuda", "cuda", missing, python=True)
