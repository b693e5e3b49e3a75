"""Softmax with cross-entropy by NumPy, PyTorch and Numba, each into preallocated memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs import numba
from kernels.libs import torch as torch_library
from kernels.maths import alone
from kernels.ops.softmax.problem import Softmax
from kernels.setting import Setting


def numpy_chain(problem: Softmax, device: object, setting: Setting, *, parts: bool) -> Bind:
    """Prepare a chain of ufuncs, which takes the log of all probabilities if `parts`, else of row sums."""
    alone(setting)
    rows = np.arange(problem.batch)
    edge = [np.empty((problem.batch, 1), np.float32) for _ in range(2)]
    logs = np.empty((problem.batch, problem.classes), np.float32)
    run = array_parts if parts else array_sums

    def bind(buffers: Sequence[Any]) -> Launch:
        x, truth, dx, loss = buffers
        return Launch(partial(run, np, x, indexed(problem, rows, truth), (dx, loss), edge, logs))

    return bind


def indexed(problem: Softmax, rows: Any, truth: Any) -> Any:
    """Return the labels as an index into the scores, (rows, classes), or one-hot rows unchanged."""
    return truth if problem.labels == "one-hot" else (rows, truth)


def _softmax(xp: Any, x: Any, to: Any, edge: Sequence[Any]) -> None:
    """Write the softmax of x to `to`, its rows' maxima and sums of exponentials to `edge`."""
    top, total = edge
    xp.max(x, axis=1, keepdims=True, out=top)
    xp.subtract(x, top, out=to)
    xp.exp(to, out=to)
    xp.sum(to, axis=1, keepdims=True, out=total)
    xp.divide(to, total, out=to)


def array_sums(xp: Any, x: Any, labels: Any, out: Sequence[Any], edge: Sequence[Any], spare: Any) -> None:
    """Compute dx and loss by NumPy or CuPy: loss = log of the sum + maximum − score."""
    y, loss = out
    _softmax(xp, x, y, edge)
    top, total = edge
    xp.log(total, out=total)
    xp.add(total[:, 0], top[:, 0], out=loss)
    if isinstance(labels, tuple):
        xp.subtract(loss, x[labels], out=loss)
        y[labels] -= 1
    else:
        xp.multiply(labels, x, out=spare)
        xp.sum(spare, axis=1, keepdims=True, out=total)
        xp.subtract(loss, total[:, 0], out=loss)
        xp.subtract(y, labels, out=y)


def array_parts(xp: Any, x: Any, labels: Any, out: Sequence[Any], edge: Sequence[Any], spare: Any) -> None:
    """Compute dx and loss by NumPy or CuPy: softmax, log, product, sum."""
    y, loss = out
    _softmax(xp, x, y, edge)
    xp.log(y, out=spare)
    if isinstance(labels, tuple):
        xp.negative(spare[labels], out=loss)
        y[labels] -= 1
    else:
        xp.multiply(labels, spare, out=spare)
        xp.sum(spare, axis=1, out=loss)
        xp.negative(loss, out=loss)
        xp.subtract(y, labels, out=y)


def torch_rows(problem: Softmax, torch: Any, place: str) -> Any:
    """Return `run(x, truth, y, loss)`: log-softmax, its loss and both gradients, as F.cross_entropy does.

    A preceding softmax or log-softmax layer runs too, if the problem has such a layer.
    """
    aten, size = torch.ops.aten, (problem.batch, problem.classes)
    index = problem.labels == "index"
    logs, first, slope = (torch.empty(size, device=place) for _ in range(3))
    ones, weight = torch.ones(problem.batch, device=place), torch.empty((), device=place)
    ahead, back = aten._log_softmax.out, aten._log_softmax_backward_data.out
    softmax = problem.before == "softmax"
    layer = aten._softmax.out if softmax else ahead

    def through(slope: Any, y: Any) -> None:
        """Propagate the gradient through the preceding layer."""
        if softmax:
            aten._softmax_backward_data.out(slope, first, 1, torch.float32, grad_input=y)
        else:
            back(slope, first, 1, torch.float32, out=y)

    def run(x: Any, truth: Any, y: Any, loss: Any) -> None:
        scores = layer(x, 1, False, out=first) if problem.before != "none" else x
        ahead(scores, 1, False, out=logs)
        if index:
            aten.nll_loss_forward.output(logs, truth, None, 0, -100, output=loss, total_weight=weight)
            aten.nll_loss_backward.grad_input(ones, logs, truth, None, 0, -100, weight, grad_input=slope)
        else:
            torch.neg(truth, out=slope)
            torch.mul(slope, logs, out=y)
            torch.sum(y, 1, out=loss)
        back(slope, logs, 1, torch.float32, out=y)
        if problem.before != "none":
            slope.copy_(y)
            through(slope, y)

    return run


def torch_parts(problem: Softmax, torch: Any, place: str) -> Any:
    """Return `run(x, truth, y, loss)`: softmax, log, product, sum, each by a torch operator."""
    index = problem.labels == "index"
    shares, logs = (torch.empty((problem.batch, problem.classes), device=place) for _ in range(2))
    minus = torch.full((problem.batch, 1), -1.0, device=place)
    picked = torch.empty((problem.batch, 1), device=place)

    def run(x: Any, truth: Any, y: Any, loss: Any) -> None:
        torch.ops.aten._softmax.out(x, 1, False, out=shares)
        torch.log(shares, out=logs)
        if index:
            targets = truth[:, None]
            torch.gather(logs, 1, targets, out=picked)
            torch.neg(picked[:, 0], out=loss)
            y.copy_(shares)
            y.scatter_add_(1, targets, minus)
        else:
            torch.mul(truth, logs, out=logs)
            torch.sum(logs, 1, out=loss)
            loss.neg_()
            torch.sub(shares, truth, out=y)

    return run


def torch_out(problem: Softmax, device: object, setting: Setting, *, rows: Callable[..., Any]) -> Bind:
    torch = torch_library.on_threads(setting.threads)
    run = rows(problem, torch, "cpu")

    def bind(buffers: Sequence[Any]) -> Launch:
        return Launch(partial(run, *(torch_library.tensor(torch, buffer) for buffer in buffers)))

    return bind


def torch_autograd(problem: Softmax, device: object, setting: Setting) -> Bind:
    """Prepare F.cross_entropy and its backward by autograd, as a user writes it; results are copied."""
    torch = torch_library.on_threads(setting.threads)
    ones = torch.ones(problem.batch)
    entropy = torch.nn.functional.cross_entropy

    def bind(buffers: Sequence[Any]) -> Launch:
        x, truth, gradient, loss = (torch_library.tensor(torch, buffer) for buffer in buffers)
        scores = x.detach().requires_grad_()

        def call() -> None:
            with torch.enable_grad():
                losses = entropy(scores, truth, reduction="none")
                (slope,) = torch.autograd.grad(losses, scores, ones)
            gradient.copy_(slope)
            loss.copy_(losses.detach())

        return Launch(call)

    return bind


def numba_rows(problem: Softmax, device: Any, setting: Setting) -> Bind:
    """Prepare three loops over each row: maximum; exponentials and their sum; gradient."""
    import math

    alone(setting)
    # Sums may be reordered, so that they use vectors.
    njit = numba.load().njit(error_model="numpy", fastmath={"reassoc", "contract", "nsz", "nnan"})

    @njit  # type: ignore[untyped-decorator]
    def rows(x: Any, labels: Any, y: Any, loss: Any) -> None:
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
            loss[i] = math.log(total) + top - x[i, labels[i]]
            y[i, labels[i]] -= 1

    def bind(buffers: Sequence[Any]) -> Launch:
        if not rows.signatures:
            rows.compile(tuple(map(rows.typeof_pyval, buffers)))
        return Launch(partial(rows, *buffers))

    return bind
