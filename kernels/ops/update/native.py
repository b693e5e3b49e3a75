"""Bindings of update.c around a library's cblas_sgemm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernels import build
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.libs.cblas import Blas
from kernels.native import launch, structure
from kernels.ops.update.problem import Update
from kernels.problem import Array
from kernels.setting import Setting

SOURCE = Path(__file__).with_name("update.c")
PLAIN = ("-fno-tree-loop-distribute-patterns",)  # keeps the clearing pass from becoming a call of memset
APPLY = {"unit": "momentum", "tied": "sgd"}  # rules that share another rule's pass
# C struct `update` of update.c
Argument = structure(
    "pointer: x dy w v g other sgemm apply",
    "int64: m n k",
    "int32: wide products",
    "float: alpha beta mean lr mu gain keep limit",
)


def factors(problem: Update) -> tuple[float, float]:
    """Return alpha and beta of the fused product, which updates the weights or fills the velocity."""
    if problem.velocity:
        return problem.gain / problem.k, problem.mu
    keep = 1 - problem.lr * problem.decay if problem.rule == "decay" else 1.0
    return -problem.lr / problem.k, keep


def fields(problem: Update) -> dict[str, Any]:
    alpha, beta = factors(problem)
    return {
        "m": problem.m,
        "n": problem.n,
        "k": problem.k,
        "products": problem.products,
        "alpha": alpha,
        "beta": beta,
        "mean": 1 / problem.k,
        "lr": problem.lr,
        "mu": problem.mu,
        "gain": problem.gain,
        "keep": 1 - problem.lr * problem.decay,
        "limit": problem.limit,
        "apply": address(f"update_{APPLY.get(problem.rule, problem.rule)}"),
    }


def address(symbol: str) -> int:
    return build.address(SOURCE, symbol, PLAIN)


def library(load: Callable[[], Blas], symbol: str, gradients: int = 0) -> Callable[[Update, Any, Setting], Bind]:
    """Return a `prepare` of the function `symbol` of update.c, which gets `gradients` buffers for g."""

    def prepare(problem: Update, device: Any, setting: Setting) -> Bind:
        blas = load()
        blas.use(setting.threads)
        values = fields(problem) | {"sgemm": blas.sgemm, "wide": blas.wide}
        blocks = [device.allocate(4 * problem.count) for _ in range(gradients)]
        values |= {name: block.ctypes.data for name, block in zip(("g", "other"), blocks)}  # noqa: B905
        return _bind(address(symbol), values, problem, tuple(blocks))

    return prepare


def c_pass(problem: Update, device: object, setting: Setting) -> Bind:
    """Prepare the suite's C pass for the problem's part: update, clear or scale."""
    if setting.threads != 1:
        raise Unavailable("single-threaded passes: --threads 1")
    values = fields(problem)
    function = values["apply"] if problem.part == "update" else address(f"update_{problem.part}")
    return _bind(function, values, problem, ())


def _bind(function: int, values: dict[str, Any], problem: Update, blocks: tuple[Array, ...]) -> Bind:
    names = [operand.name for operand in problem.operands()]
    workspace = sum(block.nbytes for block in blocks)

    def bind(buffers: Sequence[Array]) -> Launch:
        return launch(function, Argument(**values), names, buffers, workspace=workspace, keep=blocks)

    return bind
