"""Products on a GPU that are called through Python packages: CuPy, scikit-cuda, PyCUDA, Numba, PyTorch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kernels import nvcc
from kernels.launch import Launch
from kernels.libs import cublas, pycuda, skcuda, torch_cuda
from kernels.libs import numba as numba_library
from kernels.ops.gemm import cuda as own
from kernels.ops.gemm import numba_cuda
from kernels.ops.gemm.cublas import addresses, words
from kernels.ops.gemm.problem import Gemm

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.problem import Problem

TILES = "sgemm_tiled"
LETTERS = {"operand": "P", "float32": "f", "int64": "q"}  # of the module `struct`, by what a geometry passes


def cupy_raw(problem: Gemm, device: Any, setting: object) -> Bind:
    """CuPy's thin binding of cublasSgemm and cublasGemmEx on the handle that CuPy keeps. It asks for the
    stream's state and sets it at each call, and so cannot be captured."""
    import numpy as np

    binding: Any = importlib.import_module("cupy_backends.cuda.libs.cublas")
    handle = device.cp.cuda.Device().cublas_handle
    factors = np.array([problem.alpha, problem.beta], np.float32)
    alpha, beta = factors.ctypes.data, factors.ctypes.data + 4

    def bind(buffers: Sequence[Any]) -> Launch:
        flags, sizes, _, first, second, out = words(problem, addresses(buffers))
        if problem.dtype == "fp32":
            call = partial(binding.sgemm, handle, *flags, *sizes, alpha, *first, *second, beta, *out)
        else:
            kind, compute = cublas.TYPES[problem.dtype]
            typed = [(pointer, kind, leading) for pointer, leading in (first, second, out)]
            inputs = (alpha, *typed[0], *typed[1])
            how = (compute, cublas.DEFAULT_ALGORITHM)
            call = partial(binding.gemmEx, handle, *flags, *sizes, *inputs, beta, *typed[2], *how)

        def run(keep: object = (factors, *buffers)) -> None:
            call()

        return Launch(run, kernels=cublas.KERNELS)

    return bind


def cupy_matmul(problem: Gemm, device: Any, setting: object) -> Bind:
    """cupy.matmul(a, b, out=c): TF32 only where CUPY_TF32=1 was set before. It copies padded operands."""
    kernels = cublas.KERNELS + (len(problem.operands()) if problem.ld_pad else 0)

    def bind(buffers: Sequence[Any]) -> Launch:
        a, b, c = buffers
        left = a if problem.trans[0] == "n" else a.T
        right = b if problem.trans[1] == "n" else b.T
        return Launch(partial(device.cp.matmul, left, right, out=c), kernels=kernels)

    return bind


def scikit(problem: Gemm, device: Any, setting: object) -> Bind:
    on = skcuda.open_handle(device.stream.ptr)

    def bind(buffers: Sequence[Any]) -> Launch:
        call = skcuda.sgemm(on, *words(problem, addresses(buffers)))

        def run(keep: object = buffers) -> None:
            call()

        return Launch(run, kernels=cublas.KERNELS)

    return bind


def tiles_by_pycuda(device: Any) -> Callable[[Gemm, Sequence[int]], Callable[[], None]]:
    """Of a product and its operands' addresses a launch of `sgemm_tiled` by PyCUDA's prepared_async_call, on a stream
    of its own that is tied to ours. Raises BuildError, LaunchError, Unavailable."""
    on = pycuda.open_side(device.stream.ptr)
    kernel = pycuda.function(nvcc.cubin(own.SOURCE, device.arch), TILES)

    def launch(problem: Gemm, places: Sequence[int]) -> Callable[[], None]:
        (geometry,) = own.launches(problem, TILES)
        given = dict(zip((x.name for x in problem.operands()), places, strict=True))
        arguments = [
            (
                LETTERS[kind],
                given[str(value)] if kind == "operand" else float(value) if kind == "float32" else int(value),
            )
            for kind, value in geometry.arguments
        ]
        return pycuda.launch(on, kernel, geometry.grid, geometry.block, arguments)

    return launch


def by_pycuda(problem: Gemm, device: Any, setting: object) -> Bind:
    """Our tiles, launched by PyCUDA."""
    launch = tiles_by_pycuda(device)

    def bind(buffers: Sequence[Any]) -> Launch:
        call = launch(problem, addresses(buffers))

        def run(keep: object = buffers) -> None:
            call()

        return Launch(run, kernels=1 + pycuda.TIES)

    return bind


def torch_mm(problem: Gemm, device: Any, setting: object) -> Bind:
    """torch.mm into c. TF32 is a switch of the whole process, so each call sets it as its problem says."""
    torch = torch_cuda.load(device)
    choose, product = torch_cuda.arithmetic(torch, problem.dtype), torch.mm

    def bind(buffers: Sequence[Any]) -> Launch:
        a, b, c = (torch_cuda.tensor(torch, x) for x in buffers)
        left = a if problem.trans[0] == "n" else a.t()
        right = b if problem.trans[1] == "n" else b.t()

        def run(keep: object = buffers) -> None:
            choose()
            product(left, right, out=c)

        return Launch(run, kernels=cublas.KERNELS)

    return bind


def numba(kernel: str) -> Callable[[Gemm, Any, object], Bind]:
    """A kernel of numba_cuda.py, compiled for operands that lie as the problem's do."""

    def prepare(problem: Gemm, device: Any, setting: object) -> Bind:
        import numpy as np

        cuda = numba_library.cuda()
        function, stream = numba_cuda.kernels()[kernel], cuda.external_stream(device.stream.ptr)
        factors = np.float32(problem.alpha), np.float32(problem.beta)

        def passed(buffers: Sequence[Any]) -> tuple[Any, ...]:
            a, b, c = buffers
            left, right = a if problem.trans[0] == "n" else a.T, b if problem.trans[1] == "n" else b.T
            return (*map(cuda.as_cuda_array, (left, right, c)), *factors)

        small = replace(problem, m=2, n=2, k=2)
        blocks, threads = numba_cuda.geometry(kernel, small.m, small.n)
        numba_library.compiled(function[blocks, threads, stream], passed(unread(small, device)))
        blocks, threads = numba_cuda.geometry(kernel, problem.m, problem.n)
        configured = function[blocks, threads, stream]

        def bind(buffers: Sequence[Any]) -> Launch:
            left, right, out, alpha, beta = passed(buffers)

            def run(keep: object = buffers) -> None:
                configured(left, right, out, alpha, beta)

            return Launch(run, kernels=1)

        return bind

    return prepare


def unread(problem: Problem, device: Any) -> list[Any]:
    """Operands for a launch whose result is not read."""
    return [device.view(device.allocate(x.nbytes), 0, x) for x in problem.operands()]
