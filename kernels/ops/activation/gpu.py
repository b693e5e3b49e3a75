"""Activations on a GPU by CuPy, a chain of its ufuncs, and by PyTorch's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernels.launch import Bind, Launch, held
from kernels.libs import torch_cuda
from kernels.nvcc import Geometry, over
from kernels.ops.activation.libraries import inputs, torch_steps
from kernels.ops.activation.problem import Activation

SOURCE = Path(__file__).with_name("activation.cu")
KINDS = ("relu", "sigmoid", "tanh", "exp")
KERNELS = tuple(f"{kind}_{phase}" for phase in ("forward", "dgrad") for kind in KINDS)
THREADS = 256  # of a block, four elements each


def kernel(problem: Activation) -> str:
    """Return the name of the kernel that solves `problem`."""
    return f"{problem.kind}_{problem.phase}"


def launches(problem: Activation, name: str) -> tuple[Geometry, ...]:
    """Return one launch of four elements a thread; in place, input and output share an address."""
    blocks = -(-problem.count // (4 * THREADS))
    return (over(name, blocks, THREADS, (*problem.sources, "y"), problem.count),)


def cupy_chain(problem: Activation, device: Any, setting: object) -> Bind:
    cp = device.cp
    spare = cp.empty((1, problem.count), "f4") if problem.phase == "dgrad" else None
    mask = cp.empty((1, problem.count), bool) if problem.phase == "dgrad" else None

    def sigmoid(x: Any, y: Any) -> None:
        cp.negative(x, y)
        cp.exp(y, y)
        cp.add(y, 1, y)
        cp.reciprocal(y, y)

    # Each step with its number of kernels, one for each ufunc
    steps: dict[tuple[str, str], tuple[int, Callable[..., object]]] = {
        ("relu", "forward"): (1, lambda x, y: cp.maximum(x, 0, y)),
        ("sigmoid", "forward"): (4, sigmoid),
        ("tanh", "forward"): (1, lambda x, y: cp.tanh(x, y)),
        ("exp", "forward"): (1, lambda x, y: cp.exp(x, y)),
        ("relu", "dgrad"): (2, lambda x, d, y: cp.multiply(d, cp.greater(x, 0, mask), y)),
        ("sigmoid", "dgrad"): (3, lambda x, d, y: cp.multiply(cp.multiply(cp.subtract(1, x, spare), x, spare), d, y)),
        ("tanh", "dgrad"): (3, lambda x, d, y: cp.multiply(cp.subtract(1, cp.multiply(x, x, spare), spare), d, y)),
        ("exp", "dgrad"): (1, lambda x, d, y: cp.multiply(x, d, y)),
    }
    kernels, step = steps[problem.kind, problem.phase]
    return lambda buffers: Launch(partial(step, *inputs(problem, buffers), buffers[-1]), kernels=kernels)


def torch_out(problem: Activation, device: Any, setting: object) -> Bind:
    torch = torch_cuda.load(device)
    step = torch_steps(torch)[problem.kind, problem.phase]

    def bind(buffers: Sequence[Any]) -> Launch:
        tensors = [torch_cuda.tensor(torch, x) for x in buffers]
        run = partial(step, *inputs(problem, tensors), tensors[-1])
        return held(run, buffers, kernels=1)  # each is one element-wise operator

    return bind
