"""One step of an optimizer over all tensors of a network, for given gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from kernels import places
from kernels.dtypes import UNIT_ROUNDOFF
from kernels.errors import UsageError
from kernels.lazy import np
from kernels.problem import Array, Arrays, Excerpt, Operand, Problem, axis

SMALLEST_NORM = 1e-6
STATE, STEP, NORM = (8.0, 16.0, 512.0)  # unit roundoffs allowed: of a moment, of a step made of moments, of a long sum


@dataclass(frozen=True)
class Rule:
    """Formula and cost of an optimizer's step."""

    bytes: int  # per parameter: every array read once, and written once if it changes
    flops: int  # per parameter: operations of the formula except those of constants alone
    state: tuple[str, ...]  # names of the arrays beside the parameters
    step: Callable[[Any, Array, Array], Array]  # (problem, g, s) -> new s; s: parameters, then state, an array a row
    squares: tuple[str, ...] = ()  # names of the state that is never negative


def _stack(*rows: Array) -> Array:
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
    """Return the factor by which clipping by the global norm scales the gradient."""
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
    """Return the largest |error| of a correct step.

    Moments: roundings of their terms. Parameters: the rounding of the result, STEP roundings of the step, and the error
    of a first moment, whose terms may cancel.
    """
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


@dataclass(frozen=True)
class Optimizer(Problem):
    """Step of `rule` on `tensors` parameter tensors of `size` elements each, contiguous in memory.

    Gradient g, parameters p and the rule's state are arrays of N = tensors·size elements. The state is a velocity or
    second moment v; for adam the first moment m and the second v; for adadelta v and the mean square u of its steps.
    Formulas and epsilons are PyTorch's late in training, when bias corrections are 1 and a step can be repeated.
    """

    op: ClassVar[str] = "optimizer"

    rule: str = axis("optimizer; copy: only the memory traffic of the gradient", choices=NAMES)
    tensors: int = axis("parameter tensors", low=1)
    size: int = axis("parameters per tensor", low=1)
    # With a negative rate, gradients and state in [0, 1) (--data uniform, required by rules with a second moment) no
    # sign changes, and no second moment turns negative from round to round. Parameters grow by as much in each launch,
    # those of decay by 1 in 80 000, far from infinity; what decays approaches the gradient, not denormal numbers.
    lr: float = axis("learning rate; negative: ascent", -0.125)
    mu: float = axis("momentum; beta1 of adam", 0.9, low=0)
    rho: float = axis("decay of the second moment (beta2 of adam)", 0.999, low=0)
    decay: float = axis("weight decay", 1e-4, low=0)
    eps: float = axis("epsilon", 1e-8, low=0)
    limit: float = axis("bound of each element of g (clip) or of its root mean square (norm)", 0.5, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("mu", "rho"):
            if getattr(self, name) >= 1:
                raise UsageError(f"--{name} {getattr(self, name)}: must be less than 1, else the state diverges")

    @property
    def count(self) -> int:
        return self.tensors * self.size

    @property
    def state(self) -> tuple[str, ...]:
        """Names of the arrays beside the parameters."""
        return RULES[self.rule].state

    @property
    def flops(self) -> float:
        return float(RULES[self.rule].flops * self.count)

    @property
    def bytes(self) -> float:
        return float(RULES[self.rule].bytes * self.count)

    @property
    def summed(self) -> int:
        return self.count if self.rule == "norm" else 1

    @property
    def special(self) -> dict[str, tuple[float, ...]]:
        """NaN in g, which reaches its parameter and state; none if the rule clips, as libraries differ."""
        return {} if self.rule in ("clip", "norm") else {"g": (math.nan,)}

    def operands(self) -> tuple[Operand, ...]:
        shape = (self.count,)
        p = Operand("p", shape, "inout" if self.rule != "copy" else "out")
        squares = RULES[self.rule].squares
        state = (Operand(name, shape, "inout", nonnegative=name in squares) for name in self.state)
        return Operand("g", shape, "in"), p, *state

    def _stacked(self, x: Arrays) -> Array:
        """Return parameters and state in float64, one array a row."""
        names = ("p", *self.state) if "p" in x else ()
        return np.array([x[name] for name in names], np.float64).reshape(len(names), self.count)

    def _named(self, rows: Array) -> dict[str, Array]:
        return dict(zip(("p", *self.state), rows, strict=True))

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        if self.rule == "norm":  # the norm needs the whole gradient
            return super().excerpt(rng)
        some = places.elements(rng, self.count)
        return self.excerpt_rows(some, tensors=1, size=len(some))

    def reference(self, x: Arrays) -> dict[str, Array]:
        return self._named(RULES[self.rule].step(self, x["g"].astype(np.float64), self._stacked(x)))

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Bound the roundings of each operation, carried to the parameters; a copy is exact."""
        if self.rule == "copy":
            return {"p": np.zeros_like(want["p"])}
        g, after = x["g"].astype(np.float64), self._stacked(want)
        return self._named(bound(self, g, self._stacked(x), after, max(u, UNIT_ROUNDOFF["fp32"])))
