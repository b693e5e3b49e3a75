"""Optimizer steps by our C and CUDA passes, NumPy's chains, and torch's three forms on CPU and GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernels import grid
from kernels.errors import UsageError
from kernels.launch import Bind, Launch, held
from kernels.libs import torch_cuda
from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.torch import TORCH
from kernels.libs.torch_cuda import TORCH_CUDA
from kernels.nvcc import Geometry, over
from kernels.ops.optimizer import libraries, native
from kernels.ops.optimizer.native import gain, signed
from kernels.ops.optimizer.problem import Optimizer
from kernels.problem import Work
from kernels.provider import NUMPY, SUITE
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant, row

SOURCE = Path(__file__).with_name("optimizer.cu")
# Rules of each kernel
KERNELS = {
    "optimizer_sgd": ("sgd", "decay"),
    "optimizer_momentum": ("momentum", "unit", "nesterov"),
    "optimizer_adam": ("adam",),
}
RULES = tuple(rule for rules in KERNELS.values() for rule in rules)
THREADS = 256
RESIDENT = 8  # blocks of 256 that a multiprocessor of sm_80, sm_90 or sm_100 holds: 2048 threads
H100 = 132  # multiprocessors of an H100 SXM, the default without a device


def kernel(problem: Optimizer) -> str:
    """Return the kernel of the problem's rule. Raises UsageError."""
    for name, rule_names in KERNELS.items():
        if problem.rule in rule_names:
            return name
    raise UsageError(f"{SOURCE.name} has no kernel for {problem.rule}; choose from {', '.join(RULES)}")


def launches(problem: Optimizer, name: str, processors: int = H100, each: bool = False) -> tuple[Geometry, ...]:
    """Return one launch over all parameters, or, if `each`, one for each tensor."""
    count = problem.size if each else problem.count
    blocks = max(1, min(-(-count // (4 * THREADS)), RESIDENT * processors))
    names, rest = [x.name for x in problem.operands()], [float(x) for x in _rest(problem, name)]
    firsts = range(0, problem.count, count)
    return tuple(over(name, blocks, THREADS, names, first, count, *rest) for first in firsts)


def _rest(problem: Optimizer, name: str) -> tuple[float, ...]:
    """Return the kernel's remaining arguments, in its order."""
    if name == "optimizer_sgd":
        decay = problem.decay if problem.rule == "decay" else 0.0
        return problem.lr, 1 - problem.lr * decay
    first = (problem.lr, problem.mu, gain(problem))
    if name == "optimizer_momentum":
        return (*first, 1.0 if problem.rule == "nesterov" else 0.0)
    return (*first, problem.rho, 1 - problem.rho, problem.eps)


# torch's operators, a kernel each: per tensor in the loop form, for all tensors in the foreach form, or fewer.
OPERATORS = {
    "sgd": 1,
    "decay": 2,
    "momentum": 3,
    "unit": 3,
    "nesterov": 4,
    "rmsprop": 5,
    "adagrad": 5,
    "adadelta": 11,
    "adam": 7,
    "clip": 3,
    "norm": 4,
}
SHARE = 8  # operators of norm that run once: the norm of the norms, its parts, and the factor
COUNTED = ("adagrad", "adam")  # rules whose fused forms count steps on the device
# A multi-tensor launch of torch takes at least TENSORS tensors, or CHUNKS chunks of CHUNK elements.
TENSORS, CHUNKS, CHUNK = 30, 320, 65536


def enqueued(problem: Optimizer, how: str) -> int:
    """Return the most kernels that torch launches for one step in the form `how`."""
    joined = -(-problem.tensors // 128)  # stacked so many at a time
    once = SHARE + joined if problem.rule == "norm" else 0
    if how == "loop":
        return OPERATORS[problem.rule] * problem.tensors + once
    chunks = problem.tensors * -(-problem.size // CHUNK)
    launches = 1 + problem.tensors // TENSORS + chunks // CHUNKS
    each = OPERATORS[problem.rule] if how == "foreach" else 1 + (problem.rule in COUNTED)
    return each * launches + once


def written(problem: Optimizer) -> str | None:
    """Return why our CUDA kernels cannot run `problem`, or None if they can."""
    if problem.rule in RULES:
        return None
    return f"supports only {', '.join(RULES)}: --rule {RULES[0]}"


def written_for_few(problem: Optimizer) -> str | None:
    """Return why one launch for each tensor, prepared beforehand, cannot run `problem`, or None if it can."""
    return written(problem) or libraries.few(problem)


def prepared(each: bool) -> Callable[[Optimizer, Any, Setting], Bind]:
    """Return a `prepare` of one launch over all tensors or, if `each`, of one launch per tensor."""

    def geometries(problem: Optimizer, device: Any) -> Any:
        return launches(problem, kernel(problem), device.processors, each)

    prepare_grid = grid.prepared(SOURCE, geometries)

    def prepare(problem: Optimizer, device: Any, setting: Setting) -> Bind:
        signed(problem, setting)
        return prepare_grid(problem, device, setting)

    return prepare


def by_torch(how: str) -> Callable[[Optimizer, Any, Setting], Bind]:
    """Return a `prepare` of torch.optim in the form `how` on tensors that share the operands' memory."""

    def prepare(problem: Optimizer, device: Any, setting: Setting) -> Bind:
        signed(problem, setting)
        torch = torch_cuda.load(device)
        if how == "fused":
            libraries.tried(torch, problem, how, device.name)

        def bind(buffers: Sequence[Any]) -> Launch:
            g, *s = (torch_cuda.tensor(torch, x) for x in buffers)
            launch = libraries.on_tensors(torch, problem, g, s, how)
            return held(launch.call, buffers, kernels=enqueued(problem, how))

        return bind

    return prepare


def each(problem: Optimizer) -> str | None:
    """Return why NumPy's chain over single tensors cannot run `problem`, or None if it can."""
    if problem.rule == "norm":
        return "the norm spans all tensors: --variant numpy"
    return libraries.few(problem)


def one_by_one(problem: Optimizer) -> str | None:
    """Return why our pass, called from Python, cannot run `problem`, or None if it can."""
    if problem.rule == "norm":
        return "the norm spans all tensors: --variant c"
    return libraries.few(problem)


def chained(problem: Optimizer) -> Work:
    """Return the work of NumPy's chain, whose passes move more bytes than the nominal step."""
    return Work(problem.flops, float(libraries.BYTES[problem.rule] * problem.count))


TOGETHER = (DEFAULT, "together")
VARIANTS: tuple[Variant[Optimizer], ...] = (
    row(SUITE, "c", native.all_tensors, roles=(*TOGETHER, "traffic")),
    row(SUITE, "c-each", native.passes("optimizer_each"), roles=("together",)),
    row(SUITE, "ctypes-each", native.from_python, accepts=one_by_one, python=True, roles=("together",)),
    row(NUMPY, "numpy", libraries.numpy_chain(each=False), work=chained, roles=TOGETHER),
    row(NUMPY, "numpy-each", libraries.numpy_chain(each=True), accepts=each, work=chained, roles=("together",)),
    *(
        row(TORCH, f"torch-{how}", libraries.cpu(how), accepts=libraries.known(how), roles=TOGETHER)
        for how in libraries.FORMS
    ),
    row(CUDA_SUITE, "cuda", prepared(each=False), accepts=written, roles=(*TOGETHER, "traffic")),
    row(CUDA_SUITE, "cuda-each", prepared(each=True), accepts=written_for_few, roles=("together",)),
    *(
        row(TORCH_CUDA, f"torch-{how}-cuda", by_torch(how), accepts=libraries.known(how), roles=TOGETHER)
        for how in libraries.FORMS
    ),
)
