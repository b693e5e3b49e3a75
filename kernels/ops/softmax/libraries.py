"""Softmax with cross-entropy by NumPy, PyTorch and Numba, each into memory that is there already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kernels.launch import Launch
from kernels.libs import numba
from kernels.libs import torch as torch_library
from kernels.maths import alone
from kernels.ops.softmax.problem import Softmax

if TYPE_CHECKING:
    from kernels.launch import Bind, Setting


def split(problem: Softmax, y: Any) -> tuple[Any, Any]:
    """The gradient's rows and the losses, within y."""
    return y[0, : problem.count].reshape(problem.batch, problem.classes), y[0, problem.count :]


def numpy_chain(problem: Softmax, device: object, setting: Setting, *, parts: bool) -> Bind:
    """Ufunc after ufunc. `parts`: by way of the logarithm of every share; else of each row's sum alone."""
    import numpy as np

    alone(setting)
    targets, rows = problem.targets(), np.arange(problem.batch)
    edge = [np.empty((problem.batch, 1), np.float32) for _ in range(2)]
    logs = np.empty((problem.batch, problem.classes), np.float32)
    run = array_parts if parts else array_sums

    def bind(buffers: Sequence[Any]) -> Launch:
        x, *t, y = buffers
        truth = t[0] if t else None
        return Launch(partial(run, np, x, truth, *split(problem, y), (rows, targets), edge, logs))

    return bind


def _softmax(xp: Any, x: Any, to: Any, edge: Sequence[Any]) -> None:
    """Into `to`; the rows' maxima and sums of exponentials into `edge`."""
    top, total = edge
    xp.max(x, axis=1, keepdims=True, out=top)
    xp.subtract(x, top, out=to)
    xp.exp(to, out=to)
    xp.sum(to, axis=1, keepdims=True, out=total)
    xp.divide(to, total, out=to)


def array_sums(xp: Any, x: Any, t: Any, y: Any, loss: Any, own: Any, edge: Sequence[Any], spare: Any) -> None:
    """NumPy or CuPy: loss = log of the sum + maximum − score."""
    _softmax(xp, x, y, edge)
    top, total = edge
    xp.log(total, out=total)
    xp.add(total[:, 0], top[:, 0], out=loss)
    if t is None:
        xp.subtract(loss, x[own], out=loss)
        y[own] -= 1
    else:
        xp.multiply(t, x, out=spare)
        xp.sum(spare, axis=1, keepdims=True, out=total)
        xp.subtract(loss, total[:, 0], out=loss)
        xp.subtract(y, t, out=y)


def array_parts(xp: Any, x: Any, t: Any, y: Any, loss: Any, own: Any, edge: Sequence[Any], spare: Any) -> None:
    """NumPy or CuPy: softmax, log, product, sum."""
    _softmax(xp, x, y, edge)
    xp.log(y, out=spare)
    if t is None:
        xp.negative(spare[own], out=loss)
        y[own] -= 1
    else:
        xp.multiply(t, spare, out=spare)
        xp.sum(spare, axis=1, out=loss)
        xp.negative(loss, out=loss)
        xp.subtract(y, t, out=y)


def torch_rows(problem: Softmax, torch: Any, place: str) -> Any:
    """`run(x, t, y, loss)`: log-softmax and its loss, then both gradients, as F.cross_entropy does; with the
    layer before where there is one."""
    aten, size = torch.ops.aten, (problem.batch, problem.classes)
    targets = torch.from_numpy(problem.targets()).to(place)
    logs, first, slope = (torch.empty(size, device=place) for _ in range(3))
    ones, weight = torch.ones(problem.batch, device=place), torch.empty((), device=place)
    ahead, back = aten._log_softmax.out, aten._log_softmax_backward_data.out
    softmax = problem.before == "softmax"
    layer = aten._softmax.out if softmax else ahead

    def through(slope: Any, y: Any) -> None:
        """Back through the layer before."""
        if softmax:
            aten._softmax_backward_data.out(slope, first, 1, torch.float32, grad_input=y)
        else:
            back(slope, first, 1, torch.float32, out=y)

    def run(x: Any, t: Any, y: Any, loss: Any) -> None:
        scores = layer(x, 1, False, out=first) if problem.before != "none" else x
        ahead(scores, 1, False, out=logs)
        if t is None:
            aten.nll_loss_forward.output(logs, targets, None, 0, -100, output=loss, total_weight=weight)
            aten.nll_loss_backward.grad_input(ones, logs, targets, None, 0, -100, weight, grad_input=slope)
        else:
            torch.neg(t, out=slope)
            torch.mul(slope, logs, out=y)
            torch.sum(y, 1, out=loss)
        back(slope, logs, 1, torch.float32, out=y)
        if problem.before != "none":
            slope.copy_(y)
            through(slope, y)

    return run


def torch_parts(problem: Softmax, torch: Any, place: str) -> Any:
    """`run(x, t, y, loss)`: softmax, log, product, sum, each an operator."""
    targets = torch.from_numpy(problem.targets()).to(place)[:, None]
    shares, logs = (torch.empty((problem.batch, problem.classes), device=place) for _ in range(2))
    minus = torch.full((problem.batch, 1), -1.0, device=place)
    picked = torch.empty((problem.batch, 1), device=place)

    def run(x: Any, t: Any, y: Any, loss: Any) -> None:
        torch.ops.aten._softmax.out(x, 1, False, out=shares)
        torch.log(shares, out=logs)
        if t is None:
            torch.gather(logs, 1, targets, out=picked)
            torch.neg(picked[:, 0], out=loss)
            y.copy_(shares)
            y.scatter_add_(1, targets, minus)
        else:
            torch.mul(t, logs, out=logs)
            torch.sum(logs, 1, out=loss)
            loss.neg_()
            torch.sub(shares, t, out=y)

    return run


def torch_out(problem: Softmax, device: object, setting: Setting, *, rows: Callable[..., Any]) -> Bind:
    torch = torch_library.load()
    torch.set_num_threads(setting.threads)
    torch.set_grad_enabled(False)
    run = rows(problem, torch, "cpu")

    def bind(buffers: Sequence[Any]) -> Launch:
        x, *t, y = (torch_library.tensor(torch, buffer) for buffer in buffers)
        return Launch(partial(run, x, t[0] if t else None, *split(problem, y)))

    return bind


def torch_autograd(problem: Softmax, device: object, setting: Setting) -> Bind:
    """What a user writes: F.cross_entropy, its graph, its backward; the gradient then copied to y."""
    torch = torch_library.load()
    torch.set_num_threads(setting.threads)
    targets = torch.from_numpy(problem.targets())
    ones = torch.ones(problem.batch)
    entropy = torch.nn.functional.cross_entropy

    def bind(buffers: Sequence[Any]) -> Launch:
        x, *t, y = (torch_library.tensor(torch, buffer) for buffer in buffers)
        gradient, loss = split(problem, y)
        scores, labels = x.detach().requires_grad_(), t[0] if t else targets

        def call() -> None:
            with torch.enable_grad():
                found = entropy(scores, labels, reduction="none")
                (slope,) = torch.autograd.grad(found, scores, ones)
            gradient.copy_(slope)
            loss.copy_(found.detach())

        return Launch(call)

    return bind


def numba_rows(problem: Softmax, device: Any, setting: Setting) -> Bind:
    """Three loops over each row: maximum; exponentials and their sum; gradient."""
    import math

    alone(setting)
    targets = problem.targets()
    # Sums may be taken in any order, so that they are vectors.
    njit = numba.load().njit(error_model="numpy", fastmath={"reassoc", "contract", "nsz", "nnan"})

    @njit  # type: ignore[untyped-decorator]
    def rows(x: Any, y: Any, loss: Any, targets: Any) -> None:
        for i in range(x.shape[0]):
            top = x[i, 0]
            for j in range(x.shape[1]):
                top = max(top, x[i, j])
            total = top - top
            for j in range(x.shape[1]):
                y[i, j] = math.exp(x[i, j] - top)
                total += y[i, j]
            share = (total / total) / total
            for j in range(x.shape[1]):
                y[i, j] *= share
            loss[i] = math.log(total) + top - x[i, targets[i]]
            y[i, targets[i]] -= 1

    def bind(buffers: Sequence[Any]) -> Launch:
        x, y = buffers
        given = (x, *split(problem, y), targets)
        if not rows.signatures:
            rows.compile(tuple(map(rows.typeof_pyval, given)))
        return Launch(partial(rows, *given))

    return bind
