"""The rules by torch.optim: its loop over tensors, its foreach operators, its fused kernels."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kernels.errors import Unavailable, said
from kernels.launch import Launch
from kernels.libs import torch as torch_library
from kernels.ops.optimizer.native import signed
from kernels.ops.optimizer.problem import Optimizer

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.problem import Array
    from kernels.setting import Setting

LATE = 1e6  # steps before this one: powers of the decays are zero there, corrections of the bias one
DESCENTS = ("sgd", "decay", "momentum", "unit", "nesterov")
FUSED = {  # what torch has fused kernels of; on CUDA adagrad's came, went, and came again about 2.11: `tried` tells
    "cpu": (*DESCENTS, "adagrad", "adam"),
    "cuda": (*DESCENTS, "adagrad", "adam"),
}
RULES = (*DESCENTS, "rmsprop", "adagrad", "adadelta", "adam", "clip", "norm")
MANY = 4096  # tensors beyond which a loop of Python's over them is all that is measured


def few(problem: Optimizer) -> str | None:
    """For rows that hold something for each tensor."""
    return f"at most {MANY} tensors here: --tensors {MANY}" if problem.tensors > MANY else None


def known(rules: tuple[str, ...], how: str) -> Callable[[Optimizer], str | None]:
    """What torch has; its foreach form of nesterov leaves the gradients changed, which are an input here."""

    def accepts(problem: Optimizer) -> str | None:
        if problem.rule not in rules:
            return f"torch has it for {', '.join(rules)}: --rule {rules[0]}"
        if problem.rule == "nesterov" and how == "foreach":
            return "torch's foreach form adds the velocity to the gradients: --variant torch-fused"
        return few(problem)

    return accepts


def cpu(how: str) -> Callable[[Optimizer, object, Setting], Bind]:
    """`how`: loop, foreach or fused."""

    def prepare(problem: Optimizer, device: object, setting: Setting) -> Bind:
        signed(problem, setting)
        torch = torch_library.load()
        torch.set_num_threads(setting.threads)
        torch.set_grad_enabled(False)

        def bind(buffers: Sequence[Array]) -> Launch:
            g, *s = (torch_library.tensor(torch, x) for x in buffers)
            return on_tensors(torch, problem, g, s, how)

        return bind

    return prepare


def on_tensors(torch: Any, problem: Optimizer, g: Any, s: Sequence[Any], how: str) -> Launch:
    """The functional form of the optimizer on lists of tensors, which are pieces of the operands."""
    grads = list(g.split(problem.size))
    rows = [list(row.split(problem.size)) for row in s]
    run = step(torch, problem, grads, rows, how)

    def call(keep: object = (g, s)) -> None:
        run()

    return Launch(call)


def step(torch: Any, problem: Optimizer, grads: list[Any], rows: list[list[Any]], how: str) -> Callable[[], object]:
    """One step of torch.optim's own function, its switches said."""
    rule = problem.rule
    if rule in ("clip", "norm"):
        return _clipped(torch, problem, grads, rows[0], how == "foreach")
    name = "sgd" if rule in DESCENTS else rule
    function = getattr(importlib.import_module(f"torch.optim.{name}"), name)
    late = [torch.tensor(LATE, device=g.device if how == "fused" else "cpu") for g in grads]
    way: dict[str, Any] = {"foreach": how == "foreach"}
    if rule in FUSED["cpu"]:  # whose functions know the word
        way["fused"] = how == "fused"
    common = {"lr": problem.lr, "maximize": False} | way
    if name == "sgd":
        return _descent(function, problem, grads, rows, common)
    common |= {"weight_decay": 0.0, "eps": problem.eps}
    if rule == "adam":
        return partial(
            function,
            rows[0],
            grads,
            rows[1],
            rows[2],
            [],
            late,
            amsgrad=False,
            beta1=problem.mu,
            beta2=problem.rho,
            **common,
        )
    if rule == "rmsprop":
        return partial(
            function, rows[0], grads, rows[1], [], [], late, alpha=problem.rho, momentum=0.0, centered=False, **common
        )
    if rule == "adagrad":
        return partial(function, rows[0], grads, rows[1], late, lr_decay=0.0, **common)
    return partial(function, rows[0], grads, rows[1], rows[2], late, rho=problem.rho, **common)


def tried(torch: Any, problem: Optimizer, how: str, place: str) -> None:
    """One step of one parameter. Raises Unavailable where this torch has no such kernel for the device."""
    g, s = torch.ones(1, device=place), torch.ones((1 + len(problem.state), 1), device=place)
    try:
        step(torch, replace(problem, tensors=1, size=1), [g], [[row] for row in s], how)()
    except RuntimeError as error:  # NotImplementedError is one
        if not isinstance(error, NotImplementedError) and "fused" not in str(error):
            raise
        raise Unavailable(
            f"torch {torch.__version__} has no {how} {problem.rule} on {place} ({said(error)}): take another --variant"
        ) from None


def _descent(
    function: Any, problem: Optimizer, grads: list[Any], rows: list[list[Any]], common: dict[str, Any]
) -> Callable[[], object]:
    moving = len(rows) > 1
    buffers = rows[1] if moving else [None] * len(grads)
    return partial(
        function,
        rows[0],
        grads,
        buffers,
        weight_decay=problem.decay if problem.rule == "decay" else 0.0,
        momentum=problem.mu if moving else 0.0,
        dampening=problem.mu if problem.rule == "unit" else 0.0,
        nesterov=problem.rule == "nesterov",
        **common,
    )


def _clipped(
    torch: Any, problem: Optimizer, grads: list[Any], parameters: list[Any], foreach: bool
) -> Callable[[], object]:
    """Clipping as torch.nn.utils does it, but into new tensors: the problem's gradients are not to change."""
    limit, lr = problem.limit, problem.lr
    most = limit * problem.count**0.5

    def norm() -> Any:
        norms = torch._foreach_norm(grads) if foreach else [torch.linalg.vector_norm(g) for g in grads]
        return (most / (torch.linalg.vector_norm(torch.stack(norms)) + 1e-6)).clamp(max=1.0)

    def together() -> None:
        if problem.rule == "norm":
            clipped = torch._foreach_mul(grads, norm())
        else:
            clipped = torch._foreach_clamp_min(grads, -limit)
            torch._foreach_clamp_max_(clipped, limit)
        torch._foreach_add_(parameters, clipped, alpha=-lr)

    def one_by_one() -> None:
        share = norm() if problem.rule == "norm" else None
        for p, g in zip(parameters, grads, strict=True):
            p.add_(g.clamp(-limit, limit) if share is None else g.mul(share), alpha=-lr)

    return together if foreach else one_by_one
