"""Optimizers: the rules of kernels/ops/optimizer/problem.py, as PyTorch documents them.

Their state is zero before the first step; adam corrects the bias of its moments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernels.ops.optimizer.problem import RULES

# Parameters of each optimizer, with their defaults.
OPTIMIZERS: Mapping[str, Mapping[str, float]] = {
    "sgd": {"momentum": 0.0},
    "nesterov": {"momentum": 0.9},
    "adagrad": {"epsilon": 1e-10},
    "rmsprop": {"rho": 0.99, "epsilon": 1e-8},
    "adam": {"momentum": 0.9, "rho": 0.999, "epsilon": 1e-8},
}
# Momentum (adam: decay of the first moment); decay of the squares; summand beside the root of the squares.
FIELDS = ("momentum", "rho", "epsilon")
LEAST = 1e-15  # least epsilon: some frameworks add its square below the root


def with_defaults(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a network file's optimizer and its parameters, with defaults filled in. Raises ValueError."""
    name = data.get("optimizer", "sgd")
    usual = _find(name)
    return {"optimizer": name} | {x: float(data.get(x, usual.get(x, 0.0))) for x in FIELDS}


def check(name: str, momentum: float, rho: float, epsilon: float) -> None:
    """Raise ValueError for a parameter that the optimizer lacks or that is out of range."""
    usual = _find(name)
    for field, value in zip(FIELDS, (momentum, rho, epsilon), strict=True):
        if field not in usual and value:
            raise ValueError(f"{name} has no {field}")
    if not 0 <= momentum < 1 or (name == "nesterov" and not momentum):
        raise ValueError(f"momentum {momentum:g}: must be 0 or more and below 1, with nesterov above 0")
    if "rho" in usual and not 0 < rho < 1:
        raise ValueError(f"rho {rho:g}: must be between 0 and 1")
    if "epsilon" in usual and not LEAST <= epsilon < 1:
        raise ValueError(f"epsilon {epsilon:g}: must be {LEAST:g} or more and below 1")


def rule(name: str, momentum: float) -> str:
    """Return the name of an optimizer's rule in kernels/ops/optimizer."""
    return "momentum" if name == "sgd" and momentum else name


def flops(name: str, momentum: float) -> int:
    """Return the FLOP of an update per parameter."""
    return RULES[rule(name, momentum)].flops


def _find(name: str) -> Mapping[str, float]:
    if name not in OPTIMIZERS:
        raise ValueError(f"optimizer {name}: choose from {', '.join(OPTIMIZERS)}")
    return OPTIMIZERS[name]
