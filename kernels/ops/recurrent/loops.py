"""Recurrent layers as loops of Python over the steps, with NumPy's or PyTorch's operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernels import maths
from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.ops.recurrent.problem import Recurrent
from kernels.problem import Array
from kernels.setting import Setting

LEAST = -88.0  # below, the exponential of -x overflows


def numpy_loop(problem: Recurrent, device: object, setting: Setting) -> Bind:
    """Prepare a loop over NumPy's products and element-wise operations, as one writes it."""
    maths.alone(setting)
    step, n = STEPS[problem.cell], problem.hidden

    def bind(buffers: Sequence[Array]) -> Launch:
        x, *each, w, r, b, y = buffers
        given, outputs = problem.by_time(x), problem.by_time(y)
        real = problem.real(np.array(problem.each) if each else None)

        def run() -> None:
            h = c = np.zeros((problem.batch, n), np.float32)
            for t in range(problem.steps):
                h, c = step((_sigmoid, _tanh), given[t], h, c, (w, r, b[0]))
                outputs[t] = h if real is None else np.where(real[t], h, 0)

        return Launch(run)

    return bind


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-np.maximum(x, LEAST)))
    return result


def _tanh(x: Array) -> Array:
    result: Array = np.tanh(x)
    return result


def lstm(functions: Any, x: Any, h: Any, c: Any, weights: Any) -> tuple[Any, Any]:
    """Return the state after a step of an LSTM; `functions`: a library's sigmoid and tanh."""
    (sigmoid, tanh), (w, r, b) = functions, weights
    sums = x @ w.T + h @ r.T + b
    n = h.shape[1]
    i, f, g, o = (sums[:, at * n : (at + 1) * n] for at in range(4))
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


def gru(functions: Any, x: Any, h: Any, c: Any, weights: Any) -> tuple[Any, Any]:
    """Return the state after a step of a GRU whose reset comes after the product."""
    (sigmoid, tanh), (w, r, b) = functions, weights
    n = h.shape[1]
    above, below = x @ w.T + b[: 3 * n], h @ r.T
    reset, z = sigmoid(above[:, :n] + below[:, :n]), sigmoid(above[:, n : 2 * n] + below[:, n : 2 * n])
    new = tanh(above[:, 2 * n :] + reset * (below[:, 2 * n :] + b[3 * n :]))
    return (1 - z) * new + z * h, c


def gru_before(functions: Any, x: Any, h: Any, c: Any, weights: Any) -> tuple[Any, Any]:
    """Return the state after a step of a GRU whose reset comes before the product."""
    (sigmoid, tanh), (w, r, b) = functions, weights
    n = h.shape[1]
    above = x @ w.T + b
    sums = above[:, : 2 * n] + h @ r[: 2 * n].T
    reset, z = sigmoid(sums[:, :n]), sigmoid(sums[:, n:])
    new = tanh(above[:, 2 * n :] + (reset * h) @ r[2 * n :].T)
    return (1 - z) * new + z * h, c


def rnn(functions: Any, x: Any, h: Any, c: Any, weights: Any) -> tuple[Any, Any]:
    """Return the state after a step of a tanh cell."""
    (_, tanh), (w, r, b) = functions, weights
    return tanh(x @ w.T + h @ r.T + b), c


STEPS: dict[str, Callable[..., tuple[Any, Any]]] = {"lstm": lstm, "gru": gru, "gru-before": gru_before, "rnn": rnn}
