"""Optimizer steps as chains of in-place NumPy functions, and in torch.optim's three forms."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from kernels.errors import Unavailable, summary
from kernels.launch import Bind, Launch, held
from kernels.lazy import np
from kernels.libs import torch as torch_library
from kernels.ops.optimizer.native import gain, signed
from kernels.ops.optimizer.problem import SMALLEST_NORM, Optimizer
from kernels.problem import Array
from kernels.setting import Setting

Call: TypeAlias = Callable[[], object]
# Bytes that each NumPy chain moves per parameter: 12 in a function of two arrays, 8 in a function of one array.
BYTES = {
    "copy": 8,
    "sgd": 20,
    "decay": 40,
    "momentum": 40,
    "unit": 48,
    "nesterov": 60,
    "rmsprop": 84,
    "adagrad": 68,
    "adadelta": 140,
    "adam": 112,
    "clip": 28,
    "norm": 24,
}


def _sgd(g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    return _descent(g, s[0], t, f["lr"])


def _descent(way: Any, p: Any, t: Any, lr: Any) -> list[Call]:
    return [partial(np.multiply, way, lr, out=t), partial(np.subtract, p, t, out=p)]


def _decay(g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    grown = [partial(np.multiply, s[0], f["decay"], out=t), partial(np.add, t, g, out=t)]
    return [*grown, *_descent(t, s[0], t, f["lr"])]


def _velocity(g: Any, v: Any, t: Any, f: Any) -> list[Call]:
    shrunk: list[Call] = [partial(np.multiply, v, f["mu"], out=v)]
    if f["gain"] == 1:
        return [*shrunk, partial(np.add, v, g, out=v)]
    return [*shrunk, partial(np.multiply, g, f["gain"], out=t), partial(np.add, v, t, out=v)]


def _momentum(g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    return [*_velocity(g, s[1], t, f), *_descent(s[1], s[0], t, f["lr"])]


def _nesterov(g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    ahead = [partial(np.multiply, s[1], f["mu"], out=t), partial(np.add, t, g, out=t)]
    return [*_velocity(g, s[1], t, f), *ahead, *_descent(t, s[0], t, f["lr"])]


def _squared(v: Any, x: Any, t: Any, f: Any) -> list[Call]:
    """Return the calls of v = rho·v + (1 − rho)·x²."""
    return [
        partial(np.multiply, v, f["rho"], out=v),
        partial(np.multiply, x, x, out=t),
        partial(np.multiply, t, f["rest"], out=t),
        partial(np.add, v, t, out=v),
    ]


def _by_root(way: Any, v: Any, p: Any, t: Any, f: Any) -> list[Call]:
    """Return the calls of p −= lr·way / (√v + eps)."""
    root = [partial(np.sqrt, v, out=t), partial(np.add, t, f["eps"], out=t), partial(np.divide, way, t, out=t)]
    return [*root, *_descent(t, p, t, f["lr"])]


def _rmsprop(g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    return [*_squared(s[1], g, t, f), *_by_root(g, s[1], s[0], t, f)]


def _adagrad(g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    summed = [partial(np.multiply, g, g, out=t), partial(np.add, s[1], t, out=s[1])]
    return [*summed, *_by_root(g, s[1], s[0], t, f)]


def _adadelta(g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    t, way = t
    delta = [
        partial(np.add, s[2], f["eps"], out=way),
        partial(np.add, s[1], f["eps"], out=t),
        partial(np.divide, way, t, out=way),
        partial(np.sqrt, way, out=way),
        partial(np.multiply, way, g, out=way),
    ]
    return [*_squared(s[1], g, t, f), *delta, *_squared(s[2], way, t, f), *_descent(way, s[0], t, f["lr"])]


def _adam(g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    return [*_velocity(g, s[1], t, f), *_squared(s[2], g, t, f), *_by_root(s[1], s[2], s[0], t, f)]


def _clip(g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    return [partial(np.clip, g, -f["limit"], f["limit"], out=t), *_descent(t, s[0], t, f["lr"])]


def _copy(g: Any, s: Any, t: Any, f: Any) -> list[Call]:
    return [partial(np.copyto, s[0], g)]


CHAINS: dict[str, Callable[[Any, Any, Any, Any], list[Call]]] = {
    "copy": _copy,
    "sgd": _sgd,
    "decay": _decay,
    "momentum": _momentum,
    "unit": _momentum,
    "nesterov": _nesterov,
    "rmsprop": _rmsprop,
    "adagrad": _adagrad,
    "adadelta": _adadelta,
    "adam": _adam,
    "clip": _clip,
}


def numpy_chain(each: bool) -> Callable[[Optimizer, Any, Setting], Bind]:
    """Return a `prepare` of the chain on all tensors as one array or, if `each`, tensor by tensor."""

    def prepare(problem: Optimizer, device: Any, setting: Setting) -> Bind:
        signed(problem, setting)
        rows = 2 if problem.rule == "adadelta" else 1
        kept = device.allocate(4 * rows * problem.count).view("f4").reshape(rows, -1)
        f = {name: np.float32(getattr(problem, name)) for name in ("lr", "mu", "rho", "decay", "eps", "limit")}
        f |= {"gain": np.float32(gain(problem)), "rest": np.float32(1 - problem.rho)}
        count = problem.size if each else problem.count

        def bind(buffers: Sequence[Array]) -> Launch:
            g, *s = buffers
            if problem.rule == "norm":
                return Launch(_by_norm(problem, g, s[0], kept[0]), workspace=kept.nbytes)
            calls: list[Call] = []
            for at in range(0, problem.count, count):
                part = slice(at, at + count)
                room = kept[:, part] if rows == 2 else kept[0, part]
                calls += CHAINS[problem.rule](g[part], [array[part] for array in s], room, f)

            def call() -> None:
                for run in calls:
                    run()

            return Launch(call, workspace=kept.nbytes)

        return bind

    return prepare


def _by_norm(problem: Optimizer, g: Any, p: Any, t: Any) -> Call:
    """Return a call that computes the norm as a Python float, then steps by the clipped gradient."""
    most, lr = problem.limit * problem.count**0.5, problem.lr

    def call() -> None:
        share = min(1.0, most / (float(np.dot(g, g)) ** 0.5 + SMALLEST_NORM))
        np.multiply(g, np.float32(lr * share), out=t)
        np.subtract(p, t, out=p)

    return call


LATE = 1e6  # number of earlier steps, so large that bias corrections are 1
DESCENTS = ("sgd", "decay", "momentum", "unit", "nesterov")
# Rules with fused kernels in torch; on CUDA adagrad's came, went, and returned about 2.11, so `tried` checks.
FUSED = (*DESCENTS, "adagrad", "adam")
RULES = (*DESCENTS, "rmsprop", "adagrad", "adadelta", "adam", "clip", "norm")
FORMS = {"loop": RULES, "foreach": RULES, "fused": FUSED}  # torch.optim's forms, with the rules of each
MANY = 4096  # tensors beyond which a Python loop over them dominates


def few(problem: Optimizer) -> str | None:
    """Return why a row that prepares something for each tensor cannot run `problem`, or None if it can."""
    return f"supports at most {MANY} tensors: --tensors {MANY}" if problem.tensors > MANY else None


def known(how: str) -> Callable[[Optimizer], str | None]:
    """Return a condition: torch.optim has the rule in the form `how` and changes no gradients.

    The foreach form of nesterov would change the gradients, which are an input here.
    """

    def accepts(problem: Optimizer) -> str | None:
        if problem.rule not in FORMS[how]:
            return f"torch's {how} form supports only {', '.join(FORMS[how])}: --rule {FORMS[how][0]}"
        if problem.rule == "nesterov" and how == "foreach":
            return "torch's foreach form modifies the gradients: --variant torch-fused"
        return few(problem)

    return accepts


def cpu(how: str) -> Callable[[Optimizer, object, Setting], Bind]:
    """Return a `prepare` of torch.optim in the form `how`: loop, foreach or fused."""

    def prepare(problem: Optimizer, device: object, setting: Setting) -> Bind:
        signed(problem, setting)
        torch = torch_library.on_threads(setting.threads)

        def bind(buffers: Sequence[Array]) -> Launch:
            g, *s = (torch_library.tensor(torch, x) for x in buffers)
            return on_tensors(torch, problem, g, s, how)

        return bind

    return prepare


def on_tensors(torch: Any, problem: Optimizer, g: Any, s: Sequence[Any], how: str) -> Launch:
    """Return a launch of torch.optim's functional form on lists of tensors, views of the operands."""
    grads = list(g.split(problem.size))
    rows = [list(row.split(problem.size)) for row in s]
    run = step(torch, problem, grads, rows, how)
    return held(run, (g, s))


def step(torch: Any, problem: Optimizer, grads: list[Any], rows: list[list[Any]], how: str) -> Callable[[], object]:
    """Return a call of torch.optim's function for one step, in the form `how`: loop, foreach or fused."""
    rule = problem.rule
    if rule in ("clip", "norm"):
        return _clipped(torch, problem, grads, rows[0], how == "foreach")
    name = "sgd" if rule in DESCENTS else rule
    function = getattr(importlib.import_module(f"torch.optim.{name}"), name)
    late = [torch.tensor(LATE, device=g.device if how == "fused" else "cpu") for g in grads]
    way: dict[str, Any] = {"foreach": how == "foreach"}
    if rule in FUSED:  # whose functions take the keyword
        way["fused"] = how == "fused"
    common = {"lr": problem.lr, "maximize": False} | way
    if name == "sgd":
        return _torch_descent(function, problem, grads, rows, common)
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
    """Run one step of one parameter. Raises Unavailable if torch has no such kernel for the device."""
    g, s = torch.ones(1, device=place), torch.ones((1 + len(problem.state), 1), device=place)
    try:
        step(torch, replace(problem, tensors=1, size=1), [g], [[row] for row in s], how)()
    except RuntimeError as error:  # which includes NotImplementedError
        if not isinstance(error, NotImplementedError) and "fused" not in str(error):
            raise
        raise Unavailable(
            f"torch {torch.__version__} has no {how} {problem.rule} on {place} ({summary(error)}): "
            "use another --variant"
        ) from None


def _torch_descent(
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
    """Return a call that clips as torch.nn.utils does, but into new tensors, as gradients are inputs."""
    limit, lr = problem.limit, problem.lr
    most = limit * problem.count**0.5

    def norm() -> Any:
        norms = torch._foreach_norm(grads) if foreach else [torch.linalg.vector_norm(g) for g in grads]
        return (most / (torch.linalg.vector_norm(torch.stack(norms)) + SMALLEST_NORM)).clamp(max=1.0)

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
