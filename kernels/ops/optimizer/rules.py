"""The rules: their formulas in float64 as PyTorch documents them, their traffic, what an honest kernel may err.

epsilon is added to the square root by rmsprop, adagrad and adam, and to its radicand by adadelta. decay is
coupled: it enters the gradient. unit is sgd with momentum mu and dampening mu. clip and norm are sgd after
torch.nn.utils.clip_grad_value_ and clip_grad_norm_, whose norm here is limit times the root of N.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernels.problem import Array

SMALLEST_NORM = 1e-6
STATE, STEP, NORM = (8.0, 16.0, 512.0)  # units of roundoff: of a moment, of a step made of moments, of a long sum


@dataclass(frozen=True)
class Rule:
    """`bytes` and `flops` of a parameter: every array read once and written once where it changes; each operation of
    the formula but those of constants alone. `state`: names of the arrays beside the parameters; `step(problem, g, s)`,
    s and what it returns the parameters and the state, an array each; `squares`: the state that is never negative."""

    bytes: int
    flops: int
    state: tuple[str, ...]
    step: Callable[[Any, Array, Array], Array]
    squares: tuple[str, ...] = ()


def _stack(*rows: Array) -> Array:
    import numpy as np

    return np.stack(rows)


def _copy(o: Any, g: Array, s: Array) -> Array:
    return g[None]


def _sgd(o: Any, g: Array, s: Array) -> Array:
    stepped: Array = s - o.lr * g
    return stepped


def _decay(o: Any, g: Array, s: Array) -> Array:
    stepped: Array = s - o.lr * (g + o.decay * s)
    return stepped


def _momentum(o: Any, g: Array, s: Array) -> Array:
    v = o.mu * s[1] + g
    return _stack(s[0] - o.lr * v, v)


def _unit(o: Any, g: Array, s: Array) -> Array:
    v = o.mu * s[1] + (1 - o.mu) * g
    return _stack(s[0] - o.lr * v, v)


def _nesterov(o: Any, g: Array, s: Array) -> Array:
    v = o.mu * s[1] + g
    return _stack(s[0] - o.lr * (g + o.mu * v), v)


def _rmsprop(o: Any, g: Array, s: Array) -> Array:
    v = o.rho * s[1] + (1 - o.rho) * g * g
    return _stack(s[0] - o.lr * g / (v**0.5 + o.eps), v)


def _adagrad(o: Any, g: Array, s: Array) -> Array:
    v = s[1] + g * g
    return _stack(s[0] - o.lr * g / (v**0.5 + o.eps), v)


def _adadelta(o: Any, g: Array, s: Array) -> Array:
    v = o.rho * s[1] + (1 - o.rho) * g * g
    delta = ((s[2] + o.eps) / (v + o.eps)) ** 0.5 * g
    return _stack(s[0] - o.lr * delta, v, o.rho * s[2] + (1 - o.rho) * delta * delta)


def _adam(o: Any, g: Array, s: Array) -> Array:
    m, v = o.mu * s[1] + (1 - o.mu) * g, o.rho * s[2] + (1 - o.rho) * g * g
    return _stack(s[0] - o.lr * m / (v**0.5 + o.eps), m, v)


def _clip(o: Any, g: Array, s: Array) -> Array:
    stepped: Array = s - o.lr * g.clip(-o.limit, o.limit)
    return stepped


def coefficient(o: Any, g: Array) -> float:
    """What clipping by the global norm multiplies the gradient by."""
    norm = math.sqrt(float((g * g).sum()))
    share: float = o.limit * math.sqrt(o.count) / (norm + SMALLEST_NORM)
    return min(1.0, share)


def _norm(o: Any, g: Array, s: Array) -> Array:
    stepped: Array = s - o.lr * coefficient(o, g) * g
    return stepped


RULES = {
    "copy": Rule(8, 0, (), _copy),
    "sgd": Rule(12, 2, (), _sgd),
    "decay": Rule(12, 4, (), _decay),
    "momentum": Rule(20, 4, ("v",), _momentum),
    "unit": Rule(20, 5, ("v",), _unit),
    "nesterov": Rule(20, 6, ("v",), _nesterov),
    "rmsprop": Rule(20, 9, ("v",), _rmsprop, ("v",)),
    "adagrad": Rule(20, 7, ("v",), _adagrad, ("v",)),
    "adadelta": Rule(28, 15, ("v", "u"), _adadelta, ("v", "u")),
    "adam": Rule(28, 12, ("m", "v"), _adam, ("v",)),
    "clip": Rule(12, 4, (), _clip),
    "norm": Rule(16, 4, (), _norm),  # the gradient is read once more, for its norm
}
NAMES = tuple(RULES)


def bound(o: Any, g: Array, s: Array, want: Array, u: float) -> Array:
    """The largest honest |error|. Moments: roundings of their terms. Parameters: the rounding of the result,
    STEP roundings of the step, and the error of a first moment, whose terms may cancel, carried over."""
    import numpy as np

    step = np.abs(want[0] - s[0])
    if o.rule == "norm":
        step = step * (NORM / STEP)
    first = 0.0
    terms = np.abs(s[1:])
    if o.rule in ("momentum", "unit", "nesterov", "adam"):
        moment = STATE * u * (np.abs(s[1]) + np.abs(g))
        divisor = np.sqrt(want[2]) + o.eps if o.rule == "adam" else 1.0
        first = 2 * abs(o.lr) * moment / divisor
        terms = terms + np.abs(g)
    parameters = 2 * u * (np.abs(want[0]) + np.abs(s[0])) + STEP * u * step + first
    if not len(terms):
        lost = STEP * u * o.decay * abs(o.lr) * np.abs(s[0]) if o.rule == "decay" else 0.0
        bounds: Array = (parameters + lost)[None]
        return bounds
    return np.vstack([parameters[None], STATE * u * (terms + np.abs(want[1:]))])
