"""Weight updates on a GPU, or parts of them, by cuBLAS, our tiles under PyCUDA, our passes and torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kernels import grid
from kernels.launch import Bind, Launch, in_order
from kernels.libs import cublas as cublas_library
from kernels.libs import pycuda, torch_cuda
from kernels.libs.cublas import CUBLAS
from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.pycuda import PYCUDA
from kernels.libs.torch_cuda import TORCH_CUDA
from kernels.ops.gemm.cublas import addresses, words
from kernels.ops.gemm.gpu import tiles_by_pycuda
from kernels.ops.gemm.problem import Gemm
from kernels.ops.optimizer import Optimizer
from kernels.ops.optimizer import variants as optimizer
from kernels.ops.update import libraries
from kernels.ops.update.native import factors
from kernels.ops.update.problem import Update
from kernels.ops.update.variants import called, fusable, fused_work, parts, rules, separate_work
from kernels.variant import DEFAULT, Variant, row

FLOAT = 4  # bytes
PRODUCT = 2  # most kernels of a product: cuBLAS may add the parts of a long sum in a second kernel
AFTER = 4  # most operators of torch after the products of a step
Call = Callable[[], object]
Multiply = Callable[[Gemm, Sequence[int]], Call]
by_library = partial(in_order, each=PRODUCT, capturable=True)
PASSES = {"sgd": "sgd", "tied": "sgd", "decay": "decay", "momentum": "momentum", "unit": "unit", "nesterov": "nesterov"}


def _by_cublas(device: Any) -> Multiply:
    return lambda gemm, places: cublas_library.sgemm(device.blas(), *words(gemm, places))


def _products(by: Multiply, problem: Update, x: int, dy: int, to: int, alpha: float, beta: float) -> list[Call]:
    """Return the calls that multiply into address `to`; every product after the first adds to `to`."""
    calls: list[Call] = []
    for i in range(problem.products):
        gemm = Gemm(problem.m, problem.n, problem.k, "tn", alpha=alpha, beta=1.0 if i else beta)
        shift = FLOAT * i * problem.k
        places = (x + shift * problem.m, dy + shift * problem.n, to)
        calls.append(by(gemm, places))
    return calls


def _pass(device: Any, problem: Update, g: int, *state: int) -> Call:
    """Return a call of the rule's kernel of optimizer.cu on the weights and, if any, the velocity."""
    step = Optimizer(PASSES[problem.rule], 1, problem.count, lr=problem.lr, mu=problem.mu, decay=problem.decay)
    geometries = optimizer.launches(step, optimizer.kernel(step), device.processors)
    places = zip((x.name for x in step.operands()), (g, *state), strict=True)
    return grid.calls(optimizer.SOURCE, geometries, dict(places), device)


def _moved(by: Multiply, problem: Update, device: Any, buffers: Sequence[Any]) -> list[Call]:
    """Return the fused form's calls: products into W, or into the velocity and then a pass over W."""
    x, dy, *state = addresses(buffers)
    calls = _products(by, problem, x, dy, state[-1], *factors(problem))  # the velocity is the last
    if problem.velocity:
        weights, velocity = state
        calls.append(_pass(device, replace(problem, rule="sgd"), velocity, weights))
    return calls


def fused(problem: Update, device: Any, setting: object) -> Bind:
    """Prepare the fused form by cublasSgemm."""
    device.blas()
    return lambda buffers: by_library(
        _moved(_by_cublas(device), problem, device, buffers), buffers, workspace=cublas_library.WORKSPACE
    )


def fused_by_pycuda(problem: Update, device: Any, setting: object) -> Bind:
    """Prepare the fused form by our tiles, launched by PyCUDA."""
    by = tiles_by_pycuda(device)

    return lambda buffers: in_order(_moved(by, problem, device, buffers), buffers, 1 + pycuda.TIES)


def separate(problem: Update, device: Any, setting: object) -> Bind:
    """Prepare cublasSgemm with beta = 0 into a separate gradient, then the rule's pass."""
    device.blas()
    by, room = _by_cublas(device), device.allocate(FLOAT * problem.count)
    g = int(room.data.ptr)

    def bind(buffers: Sequence[Any]) -> Launch:
        x, dy, *state = addresses(buffers)
        calls = [*_products(by, problem, x, dy, g, 1 / problem.k, 0.0), _pass(device, problem, g, *state)]
        return by_library(calls, (room, buffers), workspace=cublas_library.WORKSPACE + int(room.nbytes))

    return bind


def gradient(problem: Update, device: Any, setting: object) -> Bind:
    device.blas()

    def bind(buffers: Sequence[Any]) -> Launch:
        x, dy, g = addresses(buffers)
        calls = _products(_by_cublas(device), problem, x, dy, g, 1 / problem.k, 0.0)
        return by_library(calls, buffers, workspace=cublas_library.WORKSPACE)

    return bind


def cuda_pass(problem: Update, device: Any, setting: object) -> Bind:
    """Prepare the pass alone, or the clearing of a gradient."""

    def clear(buffers: Sequence[Any]) -> Launch:
        run = partial(buffers[0].data.memset_async, 0, FLOAT * problem.count, device.stream)
        return by_library([run], buffers)

    def apply(buffers: Sequence[Any]) -> Launch:
        return by_library([_pass(device, problem, *addresses(buffers))], buffers)

    return clear if problem.part == "clear" else apply


def by_torch(step: libraries.Step) -> Callable[[Update, Any, object], Bind]:
    """Return a `prepare` of a torch step on the caller's stream; each call turns TF32 off.

    TF32 is a process-wide switch.
    """

    def prepare(problem: Update, device: Any, setting: object) -> Bind:
        torch = torch_cuda.load(device)
        strict = torch_cuda.arithmetic(torch)
        room = device.allocate(FLOAT * problem.count).view("f4").reshape(problem.m, problem.n)

        def bind(buffers: Sequence[Any]) -> Launch:
            tensors = [torch_cuda.tensor(torch, x) for x in (*buffers, room)]
            launch = libraries.on_tensors(step, problem, tensors)

            def run(keep: object = buffers) -> None:
                strict()
                launch.call()

            after = AFTER if problem.part == "step" else 0
            return Launch(run, workspace=launch.workspace, kernels=PRODUCT * problem.products + after)

        return bind

    return prepare


def _cublas(name: str, prepare: Any, *of: str, **more: Any) -> Variant[Update]:
    return row(CUBLAS, f"{name}:cublas", prepare, accepts=parts(*of, also=more.pop("also", None)), **more)


def _torch(name: str, step: libraries.Step, *of: str, **more: Any) -> Variant[Update]:
    accepts = parts(*of, also=more.pop("also", None))
    return row(TORCH_CUDA, f"{name}:torch-cuda", by_torch(step), accepts=accepts, **more)


WRITTEN = rules(*PASSES)
EVERY = (DEFAULT, "ways")
VARIANTS: tuple[Variant[Update], ...] = (
    _cublas("fused", fused, "step", also=fusable, blas=called(separate=False), work=fused_work, roles=EVERY),
    _cublas("separate", separate, "step", also=WRITTEN, blas=called(separate=True), work=separate_work(1), roles=EVERY),
    _cublas("gradient", gradient, "wgrad", blas=called(separate=True), roles=()),
    row(PYCUDA, "fused:pycuda", fused_by_pycuda, accepts=parts("step", also=fusable), work=fused_work, roles=()),
    _torch("fused", libraries.fused, "step", also=fusable, work=fused_work, roles=EVERY),
    _torch("separate", libraries.separate, "step", also=rules(*PASSES, "clip"), work=separate_work(1), roles=EVERY),
    _torch("gradient", libraries.gradient, "wgrad", roles=()),
    row(CUDA_SUITE, "cuda", cuda_pass, accepts=parts("update", "clear", also=WRITTEN), roles=("passes",)),
)
