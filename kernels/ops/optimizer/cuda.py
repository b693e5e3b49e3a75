"""How the kernels of optimizer.cu are launched: over all tensors at once, or a launch for each."""

from __future__ import annotations

from pathlib import Path

from kernels.errors import UsageError
from kernels.nvcc import Argument, Geometry
from kernels.ops.optimizer.problem import Optimizer

SOURCE = Path(__file__).with_name("optimizer.cu")
# Which rules a kernel makes.
KERNELS = {
    "optimizer_sgd": ("sgd", "decay"),
    "optimizer_momentum": ("momentum", "unit", "nesterov"),
    "optimizer_adam": ("adam",),
}
RULES = tuple(rule for rules in KERNELS.values() for rule in rules)
THREADS = 256
RESIDENT = 8  # blocks of 256 that a multiprocessor of sm_80, sm_90 or sm_100 holds: 2048 threads
H100 = 132  # multiprocessors (SXM); with a device, its own number is passed


def kernel(problem: Optimizer) -> str:
    """The kernel of a rule. Raises UsageError."""
    for name, rule_names in KERNELS.items():
        if problem.rule in rule_names:
            return name
    raise UsageError(f"no kernel of {SOURCE.name} makes {problem.rule}; there are {', '.join(RULES)}")


def launches(problem: Optimizer, name: str, processors: int = H100, each: bool = False) -> tuple[Geometry, ...]:
    """One launch over all parameters, or one a tensor. Raises UsageError."""
    if name not in KERNELS or problem.rule not in KERNELS[name]:
        raise UsageError(f"{name} of {SOURCE.name} is not for {problem.name}")
    count = problem.size if each else problem.count
    blocks = max(1, min(-(-count // (4 * THREADS)), RESIDENT * processors))
    places: tuple[Argument, ...] = tuple(("operand", x.name) for x in problem.operands())
    return tuple(
        Geometry(
            name, (blocks, 1, 1), (THREADS, 1, 1), (*places, ("int64", first), ("int64", count), *_rest(problem, name))
        )
        for first in range(0, problem.count, count)
    )


def _rest(problem: Optimizer, name: str) -> tuple[Argument, ...]:
    """What else the kernel takes, in its order."""
    lr: Argument = ("float32", problem.lr)
    if name == "optimizer_sgd":
        decay = problem.decay if problem.rule == "decay" else 0.0
        return lr, ("float32", 1 - problem.lr * decay)
    gain: Argument = ("float32", 1 - problem.mu if problem.rule in ("unit", "adam") else 1.0)
    mu: Argument = ("float32", problem.mu)
    if name == "optimizer_momentum":
        return lr, mu, gain, ("float32", 1.0 if problem.rule == "nesterov" else 0.0)
    return lr, mu, gain, ("float32", problem.rho), ("float32", 1 - problem.rho), ("float32", problem.eps)
