"""The step on a GPU: our own kernels over all tensors or one after another, and torch's three ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kernels import grid
from kernels.launch import Launch
from kernels.libs import cuda as cuda_library
from kernels.libs import torch_cuda
from kernels.ops.optimizer import cuda, frameworks
from kernels.ops.optimizer.native import signed
from kernels.ops.optimizer.problem import Optimizer
from kernels.variant import DEFAULT, Variant

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.setting import Setting

# torch's operators, which are kernels: of a tensor in its loop; of all tensors in a foreach form, which may have fewer.
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
SHARE = 8  # those of norm that are made once: the norm of the norms, its parts, and what it leaves of the gradient
COUNTED = ("adagrad", "adam")  # whose fused forms count their steps on the device
# A launch of torch's for many tensors takes at least so many of them, and so many chunks of so many elements.
TENSORS, CHUNKS, CHUNK = 30, 320, 65536


def enqueued(problem: Optimizer, how: str) -> int:
    """Kernels of a step of torch's, at most."""
    joined = -(-problem.tensors // 128)  # stacked so many at a time
    once = SHARE + joined if problem.rule == "norm" else 0
    if how == "loop":
        return OPERATORS[problem.rule] * problem.tensors + once
    chunks = problem.tensors * -(-problem.size // CHUNK)
    launches = 1 + problem.tensors // TENSORS + chunks // CHUNKS
    each = OPERATORS[problem.rule] if how == "foreach" else 1 + (problem.rule in COUNTED)
    return each * launches + once


def written(problem: Optimizer) -> str | None:
    """For our own kernels."""
    if problem.rule in cuda.RULES:
        return None
    return f"written for {', '.join(cuda.RULES)}: --rule {cuda.RULES[0]}"


def each(problem: Optimizer) -> str | None:
    """For a launch a tensor, each of which is described before."""
    return written(problem) or frameworks.few(problem)


def own(each: bool) -> Callable[[Optimizer, Any, Setting], Bind]:
    """One launch over all tensors, or one for each."""

    def geometries(problem: Optimizer, device: Any) -> Any:
        return cuda.launches(problem, cuda.kernel(problem), device.processors, each)

    prepare_grid = grid.prepared(cuda.SOURCE, geometries)

    def prepare(problem: Optimizer, device: Any, setting: Setting) -> Bind:
        signed(problem, setting)
        return prepare_grid(problem, device, setting)

    return prepare


def by_torch(how: str) -> Callable[[Optimizer, Any, Setting], Bind]:
    """torch.optim on the operands' own memory."""

    def prepare(problem: Optimizer, device: Any, setting: Setting) -> Bind:
        signed(problem, setting)
        torch = torch_cuda.load(device)
        if how == "fused":
            frameworks.tried(torch, problem, how, device.name)

        def bind(buffers: Sequence[Any]) -> Launch:
            g, *s = (torch_cuda.tensor(torch, x) for x in buffers)
            launch = frameworks.on_tensors(torch, problem, g, s, how)

            def run(keep: object = buffers) -> None:
                launch.call()

            return Launch(run, kernels=enqueued(problem, how))

        return bind

    return prepare


def _torch(how: str, rules: tuple[str, ...]) -> Variant[Optimizer]:
    return Variant(
        f"torch-{how}-cuda",
        "cuda",
        "torch",
        by_torch(how),
        accepts=frameworks.known(rules, how),
        missing=torch_cuda.missing,
        kernel=torch_cuda.kernel,
        python=True,
        roles=(DEFAULT, "together"),
    )


VARIANTS: tuple[Variant[Optimizer], ...] = (
    Variant(
        "cuda",
        "cuda",
        "suite",
        own(each=False),
        accepts=written,
        missing=cuda_library.missing,
        roles=(DEFAULT, "together", "traffic"),
    ),
    Variant(
        "cuda-each", "cuda", "suite", own(each=True), accepts=each, missing=cuda_library.missing, roles=("together",)
    ),
    _torch("loop", frameworks.RULES),
    _torch("foreach", frameworks.RULES),
    _torch("fused", frameworks.FUSED["cuda"]),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
