"""The step on a GPU: our own kernels over all tensors or one after another, and torch's three ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kernels import grid
from kernels.libs import cuda as cuda_library
from kernels.libs import torch_cuda
from kernels.ops.optimizer import cuda, frameworks
from kernels.ops.optimizer.native import signed
from kernels.ops.optimizer.problem import Optimizer
from kernels.variant import Launch, Variant

if TYPE_CHECKING:
    from kernels.variant import Bind, Setting

LAUNCHES = 512  # tensors beyond which a launch for each no longer fits into the stream's queue


def written(problem: Optimizer) -> str | None:
    """For our own kernels."""
    if problem.rule in cuda.RULES:
        return None
    return f"written for {', '.join(cuda.RULES)}: --rule {cuda.RULES[0]}"


def queued(problem: Optimizer) -> str | None:
    """For a launch a tensor."""
    too_many = f"at most {LAUNCHES} launches are queued: --tensors {LAUNCHES}"
    return written(problem) or (too_many if problem.tensors > LAUNCHES else None)


def own(each: bool) -> Callable[[Optimizer, Any, Setting], Bind]:
    """One launch over all tensors, or one for each."""

    def geometries(problem: Optimizer, device: Any) -> Any:
        return cuda.launches(problem, cuda.kernel(problem), device.processors, each)

    made = grid.prepared(cuda.SOURCE, geometries)

    def prepare(problem: Optimizer, device: Any, setting: Setting) -> Bind:
        signed(problem, setting)
        return made(problem, device, setting)

    return prepare


def by_torch(how: str) -> Callable[[Optimizer, Any, Setting], Bind]:
    """torch.optim on the operands' own memory."""

    def prepare(problem: Optimizer, device: Any, setting: Setting) -> Bind:
        signed(problem, setting)
        torch = torch_cuda.load(device)

        def bind(buffers: Sequence[Any]) -> Launch:
            g, s = (torch_cuda.tensor(torch, x) for x in buffers)
            launch = frameworks.on_tensors(torch, problem, g[0], s, how)

            def run(keep: object = buffers) -> None:
                launch.call()

            return Launch(run)

        return bind

    return prepare


def _torch(how: str, rules: tuple[str, ...]) -> Variant[Optimizer]:
    return Variant(
        f"torch-{how}-cuda", "cuda", "torch", by_torch(how), accepts=frameworks.known(rules, how),
        missing=torch_cuda.missing, kernel=torch_cuda.kernel, python=True,
    )  # fmt: skip


VARIANTS: tuple[Variant[Optimizer], ...] = (
    Variant("cuda", "cuda", "suite", own(each=False), accepts=written, missing=cuda_library.missing),
    Variant("cuda-each", "cuda", "suite", own(each=True), accepts=queued, missing=cuda_library.missing),
    _torch("loop", frameworks.RULES),
    _torch("foreach", frameworks.RULES),
    _torch("fused", frameworks.FUSED),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
