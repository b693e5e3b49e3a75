"""Ways to launch a kernel on a GPU: launch overhead of the caller, asynchronous to the device.

All launch the kernels of launch.cu, or a library's product of the same size. The time is the caller's, until the
call returns, unless the device's clock is selected; a chain is far shorter than the driver's launch queue.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

from kernels import build, grid, nvcc
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch, held
from kernels.libs import cublas, driver, numba, pycuda, torch_cuda
from kernels.native import CALL, structure
from kernels.nvcc import Geometry
from kernels.ops.gemm import cublas as product
from kernels.ops.gemm import gpu as product_by
from kernels.ops.launch import libraries, native
from kernels.ops.launch.libraries import chained
from kernels.ops.launch.problem import PRODUCT, Calls

SOURCE = Path(__file__).with_name("launch.cu")
BLOCKS = {"launch_empty": (32, 1, 1), "launch_gemm": (8, 8, 1)}


def launches(problem: Calls, kernel: str) -> tuple[Geometry, ...]:
    """Return `chain` equal launches of one block."""
    geometry = Geometry(kernel, (1, 1, 1), BLOCKS[kernel], tuple(("operand", x.name) for x in problem.operands()))
    return (geometry,) * problem.chain


Prepare = Callable[[Calls, Any, Any], "Bind"]
numba_cuda: Any = None  # numba.cuda after its first use: the simulator looks for it among the globals
# C struct `driver_launch` of launch.c
DriverLaunch = structure("pointer: function kernel stream parameters", "int64: chain", "int32: width height status")


def nothing(problem: Calls, device: Any, setting: object) -> Bind:
    """Prepare the empty harness, counted as one kernel, since 0 stands for an unknown number."""
    bound = libraries.nothing(problem, device, setting)
    return lambda buffers: replace(bound(buffers), kernels=1)


def _geometry(problem: Calls) -> Any:
    """Return the launch geometry of one call."""
    return launches(Calls(problem.kernel, 1), f"launch_{problem.kernel}")[0]


def _cubin(problem: Calls, device: Any) -> Any:
    if reason := nvcc.missing():
        raise Unavailable(reason)
    return nvcc.cubin(SOURCE, device.arch)


def _ready(problem: Calls, device: Any) -> Callable[[Sequence[Any]], driver.Prepared]:
    geometry = _geometry(problem)
    kernel = driver.function(_cubin(problem, device), geometry.kernel)

    def prepare(buffers: Sequence[Any]) -> driver.Prepared:
        places = product.addresses(buffers)
        return driver.prepared(kernel, geometry.grid, geometry.block, device.stream.ptr, places)

    return prepare


def from_c(problem: Calls, device: Any, setting: object) -> Bind:
    """Prepare `chain` calls of cuLaunchKernel in a C loop."""
    prepare, geometry = _ready(problem, device), _geometry(problem)
    loop = CALL(build.address(native.SOURCE, "call_driver"))
    start = ctypes.cast(driver.api().cuLaunchKernel, ctypes.c_void_p).value

    def bind(buffers: Sequence[Any]) -> Launch:
        ready = prepare(buffers)
        width, height, _ = geometry.block
        argument = DriverLaunch(
            start, ready.words[0], device.stream.ptr, ctypes.addressof(ready.parameters), problem.chain, width, height
        )
        place = ctypes.addressof(argument)

        def run(keep: object = (ready, *buffers)) -> None:
            loop(place)
            if argument.status:
                driver.check("cuLaunchKernel", argument.status)

        return Launch(run, uses=problem.chain, kernels=problem.chain)

    return bind


def from_ctypes(problem: Calls, device: Any, setting: object) -> Bind:
    """Prepare cuLaunchKernel through ctypes, with all arguments converted beforehand.

    A launch that fails does so each time, so that checking the last status suffices.
    """
    prepare = _ready(problem, device)

    def bind(buffers: Sequence[Any]) -> Launch:
        ready, start = prepare(buffers), driver.api().cuLaunchKernel
        words = ready.words

        def run(keep: object = (ready, *buffers)) -> None:
            for _ in repeat(None, problem.chain):
                status = start(*words)
            if status:
                driver.check("cuLaunchKernel", status)

        return Launch(run, uses=problem.chain, kernels=problem.chain)

    return bind


def graph(problem: Calls, device: Any, setting: object) -> Bind:
    """Prepare one replay of a captured graph of `chain` launches."""
    geometry = _geometry(problem)
    names = [x.name for x in problem.operands()]
    bound = grid.bound(SOURCE, (geometry,), names, device)

    def bind(buffers: Sequence[Any]) -> Launch:
        launch = bound(buffers)
        return Launch(device.repeat(launch, problem.chain), uses=problem.chain, kernels=problem.chain * launch.kernels)

    return bind


def cupy_kernel(problem: Calls, device: Any, setting: object) -> Bind:
    """Prepare CuPy's launch of a kernel, function(grid, block, arguments)."""
    geometry = _geometry(problem)
    function = device.function(SOURCE, geometry.kernel)

    def bind(buffers: Sequence[Any]) -> Launch:
        return chained(function, (geometry.grid, geometry.block, tuple(buffers)), problem.chain, kernels=1)

    return bind


def pycuda_kernel(problem: Calls, device: Any, setting: object) -> Bind:
    """Prepare PyCUDA's prepared_async_call on a PyCUDA stream, synchronized with ours once per launch."""
    geometry, on = _geometry(problem), pycuda.open_side(device.stream.ptr)
    kernel = pycuda.function(_cubin(problem, device), geometry.kernel)

    def bind(buffers: Sequence[Any]) -> Launch:
        arguments = [("P", place) for place in product.addresses(buffers)]
        call = pycuda.launch(on, kernel, geometry.grid, geometry.block, arguments, count=problem.chain)
        return held(call, buffers, uses=problem.chain, kernels=problem.chain + pycuda.TIES)

    return bind


def numba_kernel(problem: Calls, device: Any, setting: object) -> Bind:
    """Prepare a @cuda.jit kernel of the same size, compiled and configured once."""
    module = numba.cuda()
    stream = module.external_stream(device.stream.ptr)
    configured = _jitted(problem.kernel)[1, _geometry(problem).block[:2], stream]
    numba.compiled(configured, [module.as_cuda_array(x) for x in product_by.unread(problem, device)])

    def bind(buffers: Sequence[Any]) -> Launch:
        arrays = [module.as_cuda_array(x) for x in buffers]
        return chained(configured, arrays, problem.chain, kernels=1)

    return bind


@functools.cache
def _jitted(kernel: str) -> Any:
    """Return a jitted Numba kernel, cached so that it is compiled once."""
    global numba_cuda
    numba_cuda = numba.cuda()
    return numba_cuda.jit(_numba()[kernel])


def _numba() -> dict[str, Callable[..., None]]:
    """Return the two kernels of launch.cu in Python."""

    def empty(x: Any) -> None:
        pass

    def gemm(a: Any, b: Any, c: Any) -> None:
        i, j = numba_cuda.threadIdx.y, numba_cuda.threadIdx.x
        total = a[i, 0] * b[0, j]
        for p in range(1, 8):
            total += a[i, p] * b[p, j]
        c[i, j] = total

    return {"empty": empty, "gemm": gemm}


def torch_call(problem: Calls, device: Any, setting: object) -> Bind:
    """Prepare torch.mm into c, or zero_() of an empty slice of x: the same path without a launch."""
    torch = torch_cuda.load(device)
    strict = torch_cuda.arithmetic(torch)

    def gemm(buffers: Sequence[Any]) -> Launch:
        a, b, c = (torch_cuda.tensor(torch, x) for x in buffers)
        multiply = torch.mm
        strict()  # disables TF32 once, outside the timed calls: no call of this operation uses TF32

        def run(keep: object = buffers) -> None:
            for _ in repeat(None, problem.chain):
                multiply(a, b, out=c)

        return Launch(run, uses=problem.chain, kernels=problem.chain * cublas.KERNELS)

    def empty(buffers: Sequence[Any]) -> Launch:
        none = torch_cuda.tensor(torch, buffers[0])[:, :0]
        return chained(torch.Tensor.zero_, (none,), problem.chain, kernels=1)

    return gemm if problem.kernel == "gemm" else empty


def library(prepare: Callable[[Any, Any, Any], Bind]) -> Prepare:
    """Return a `prepare` of `chain` 8×8×8 products by a `prepare` of kernels/ops/gemm."""

    def prepared(problem: Calls, device: Any, setting: Any) -> Bind:
        bound = prepare(PRODUCT, device, setting)

        def bind(buffers: Sequence[Any]) -> Launch:
            return chained_call(bound(buffers), problem.chain)

        return bind

    return prepared


def chained_call(launch: Launch, chain: int) -> Launch:
    call = launch.call

    def run() -> None:
        for _ in repeat(None, chain):
            call()

    return Launch(run, uses=chain, kernels=chain * launch.kernels)


CUBLAS, CUPY_RAW = library(product.product), library(product_by.cupy_raw)
CUPY, SKCUDA = library(product_by.cupy_matmul), library(product_by.scikit)
