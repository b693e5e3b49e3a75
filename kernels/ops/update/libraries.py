"""Weight updates from Python: torch's operators in place, NumPy's with and without temporaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernels.launch import Bind, Launch, held
from kernels.lazy import np
from kernels.libs import torch as torch_library
from kernels.ops.update.native import factors
from kernels.ops.update.problem import Update
from kernels.problem import Array
from kernels.setting import Setting

# step(problem, x, dy, state, g): `state` holds w, and the velocity if there is one; g is a gradient buffer.
Step = Callable[[Update, Any, Any, Sequence[Any], Any], Callable[[], object]]


def cpu(step: Step) -> Callable[[Update, Any, Setting], Bind]:
    """Return a `prepare` of a torch step on tensors that share NumPy's memory."""

    def prepare(problem: Update, device: Any, setting: Setting) -> Bind:
        torch = torch_library.on_threads(setting.threads)
        room = device.allocate(4 * problem.count).view("f4").reshape(problem.m, problem.n)

        def bind(buffers: Sequence[Array]) -> Launch:
            return on_tensors(step, problem, [torch_library.tensor(torch, x) for x in (*buffers, room)])

        return bind

    return prepare


def on_tensors(step: Step, problem: Update, tensors: Sequence[Any]) -> Launch:
    """Return the launch of `step` on the operands' tensors and, last, a gradient buffer."""
    x, dy, *state, g = tensors
    if problem.part == "wgrad":
        (g,), state = state, []
    run = step(problem, x, dy, state, g)
    return held(run, tensors, workspace=4 * problem.count if problem.part == "step" else 0)


def fused(problem: Update, x: Any, dy: Any, state: Sequence[Any], g: Any) -> Callable[[], object]:
    """Return a call of addmm_ into the weights, or into the velocity, then subtracted from the weights."""
    alpha, beta = factors(problem)
    k, left = problem.k, x.t()
    if problem.velocity:
        weights, velocity = state

        def with_velocity() -> None:
            velocity.addmm_(left, dy, beta=beta, alpha=alpha)
            weights.sub_(velocity, alpha=problem.lr)

        return with_velocity
    (w,) = state
    if problem.products == 1:
        return lambda: w.addmm_(left, dy, beta=beta, alpha=alpha)

    first, second = (left[:, :k], dy[:k]), (left[:, k:], dy[k:])

    def tied() -> None:
        w.addmm_(*first, alpha=alpha)
        w.addmm_(*second, alpha=alpha)

    return tied


def gradient(problem: Update, x: Any, dy: Any, state: Sequence[Any], g: Any) -> Callable[[], object]:
    """Return a call that computes the mean gradient; with beta = 0 the old values of `g` are not read."""
    import torch

    left, k, mean = x.t(), problem.k, 1 / problem.k
    addmm = torch.addmm
    if problem.products == 1:
        return lambda: addmm(g, left, dy, beta=0, alpha=mean, out=g)

    first, second = (left[:, :k], dy[:k]), (left[:, k:], dy[k:])

    def tied() -> None:
        addmm(g, *first, beta=0, alpha=mean, out=g)
        g.addmm_(*second, alpha=mean)

    return tied


def separate(problem: Update, x: Any, dy: Any, state: Sequence[Any], g: Any) -> Callable[[], object]:
    """Return a call that computes the gradient into `g`, then applies the rule by operators in place."""
    first, lr, mu, limit = gradient(problem, x, dy, state, g), problem.lr, problem.mu, problem.limit
    weights, velocity = state if problem.velocity else (*state, None)

    def run() -> None:
        first()
        if problem.rule == "decay":
            weights.mul_(1 - lr * problem.decay)
        elif problem.rule == "clip":
            g.clamp_(-limit, limit)
        way = g
        if velocity is not None:
            velocity.mul_(mu).add_(g, alpha=problem.gain)
            way = g.add_(velocity, alpha=mu) if problem.rule == "nesterov" else velocity
        weights.sub_(way, alpha=lr)

    return run


def temporaries(problem: Update, x: Any, dy: Any, state: Sequence[Any], g: Any) -> Callable[[], object]:
    """Return a naive call, in which the product and its scaling allocate their results."""
    left, factor = x.T, problem.lr / problem.k
    (w,) = state

    def run() -> None:
        nonlocal w
        w -= factor * (left @ dy)

    return run


def numpy_separate(problem: Update, x: Any, dy: Any, state: Sequence[Any], g: Any) -> Callable[[], object]:
    """Return a call of product, scaling and difference, each into a preallocated array."""
    left, factor = x.T, np.float32(problem.lr / problem.k)
    (w,) = state

    def run() -> None:
        np.matmul(left, dy, out=g)
        np.multiply(g, factor, out=g)
        np.subtract(w, g, out=w)

    return run


def on_arrays(step: Step) -> Callable[[Update, Any, object], Bind]:
    """Return a `prepare` of a NumPy step on the operands themselves."""

    def prepare(problem: Update, device: Any, setting: object) -> Bind:
        room = device.allocate(4 * problem.count).view("f4").reshape(problem.m, problem.n)

        def bind(buffers: Sequence[Array]) -> Launch:
            x, dy, *state = buffers
            return Launch(step(problem, x, dy, state, room), workspace=room.nbytes)

        return bind

    return prepare
