"""Optimizers in NumPy: PyTorch's formulas, a pass per operation over arrays allocated once.

Gradients are overwritten. With `elsewhere` epsilon is added at another place, as in other libraries, to measure the
bounds of equal work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy_layers


def _nothing(weights: dict[str, Any]) -> dict[str, Any]:
    return {name: np.zeros_like(w) for name, w in weights.items()}


class Sgd:
    """SGD: w = w - rate*v, with v = momentum*v + g; without momentum v = g."""

    def __init__(self, plan: dict[str, Any], weights: dict[str, Any]) -> None:
        self.rate, self.momentum = np.float32(plan["rate"]), np.float32(plan["momentum"])
        self.v = _nothing(weights) if self.momentum else {}

    def begin(self) -> None:
        """Start a step."""

    def move(self, do: Callable[..., Any], name: str, w: Any, g: Any) -> None:
        if self.v:
            self.follow(do, name, g)
            do(np.multiply, self.v[name], self.rate, out=g)
        else:
            do(np.multiply, g, self.rate, out=g)
        do(np.subtract, w, g, out=w)

    def follow(self, do: Callable[..., Any], name: str, g: Any) -> None:
        v = self.v[name]
        do(np.multiply, v, self.momentum, out=v)
        do(np.add, v, g, out=v)


class Nesterov(Sgd):
    """SGD with Nesterov momentum: w = w - rate*(g + momentum*v), with the new v."""

    def __init__(self, plan: dict[str, Any], weights: dict[str, Any]) -> None:
        super().__init__(plan, weights)
        self.beside = Beside(weights)

    def move(self, do: Callable[..., Any], name: str, w: Any, g: Any) -> None:
        self.follow(do, name, g)
        ahead = self.beside.like(w)
        do(np.multiply, self.v[name], self.momentum, out=ahead)
        do(np.add, g, ahead, out=g)
        do(np.multiply, g, self.rate, out=g)
        do(np.subtract, w, g, out=w)


class Adagrad:
    """Adagrad: w = w - rate*g/(sqrt(v) + epsilon), with v = v + g*g."""

    def __init__(self, plan: dict[str, Any], weights: dict[str, Any]) -> None:
        self.rate, self.epsilon = np.float32(plan["rate"]), np.float32(plan["epsilon"])
        self.square_of_epsilon = np.float32(plan["epsilon"] ** 2)
        self.v, self.beside, self.elsewhere = _nothing(weights), Beside(weights), plan.get("elsewhere")

    def begin(self) -> None:
        """Start a step."""

    def move(self, do: Callable[..., Any], name: str, w: Any, g: Any) -> None:
        root = self.beside.like(w)
        self.square(do, name, g, root)
        self.take_root(do, self.v[name], root)
        do(np.divide, g, root, out=g)
        do(np.multiply, g, self.rate, out=g)
        do(np.subtract, w, g, out=w)

    def square(self, do: Callable[..., Any], name: str, g: Any, squares: Any) -> None:
        do(np.multiply, g, g, out=squares)
        do(np.add, self.v[name], squares, out=self.v[name])

    def take_root(self, do: Callable[..., Any], v: Any, root: Any) -> None:
        if self.elsewhere:
            do(np.add, v, self.square_of_epsilon, out=root)
            do(np.sqrt, root, out=root)
        else:
            do(np.sqrt, v, out=root)
            do(np.add, root, self.epsilon, out=root)


class Rmsprop(Adagrad):
    """RMSprop: Adagrad's update with v = rho*v + (1 - rho)*g*g."""

    def __init__(self, plan: dict[str, Any], weights: dict[str, Any]) -> None:
        super().__init__(plan, weights)
        self.rho, self.rest = np.float32(plan["rho"]), np.float32(1 - plan["rho"])

    def square(self, do: Callable[..., Any], name: str, g: Any, squares: Any) -> None:
        v = self.v[name]
        do(np.multiply, v, self.rho, out=v)
        do(np.multiply, g, g, out=squares)
        do(np.multiply, squares, self.rest, out=squares)
        do(np.add, v, squares, out=v)


class Adam(Rmsprop):
    """Adam: w = w - rate/(1 - momentum**n) * m/(sqrt(v/(1 - rho**n)) + epsilon) in the n-th step.

    m = momentum*m + (1 - momentum)*g; v as in RMSprop.
    """

    def __init__(self, plan: dict[str, Any], weights: dict[str, Any]) -> None:
        super().__init__(plan, weights)
        self.plan, self.taken, self.m = plan, 0, _nothing(weights)
        self.momentum, self.gain = np.float32(plan["momentum"]), np.float32(1 - plan["momentum"])

    def begin(self) -> None:
        self.taken += 1
        momentum, rho = [1 - self.plan[name] ** self.taken for name in ("momentum", "rho")]
        self.step, self.grown = np.float32(self.plan["rate"] / momentum), np.float32(rho**-0.5)
        self.added = self.epsilon * self.grown if self.elsewhere else self.epsilon

    def move(self, do: Callable[..., Any], name: str, w: Any, g: Any) -> None:
        m, root = self.m[name], self.beside.like(w)
        self.square(do, name, g, root)
        do(np.multiply, g, self.gain, out=g)
        do(np.multiply, m, self.momentum, out=m)
        do(np.add, m, g, out=m)
        self.take_root(do, self.v[name], root)
        do(np.divide, m, root, out=g)
        do(np.multiply, g, self.step, out=g)
        do(np.subtract, w, g, out=w)

    def take_root(self, do: Callable[..., Any], v: Any, root: Any) -> None:
        do(np.sqrt, v, out=root)
        do(np.multiply, root, self.grown, out=root)
        do(np.add, root, self.added, out=root)


class Beside:
    """Scratch array as large as the largest weight."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self.array = numpy_layers.aligned((max(w.size for w in weights.values()),))

    def like(self, w: Any) -> Any:
        return self.array[: w.size].reshape(w.shape)


KINDS = {"sgd": Sgd, "nesterov": Nesterov, "adagrad": Adagrad, "rmsprop": Rmsprop, "adam": Adam}
