"""Prediction of the operands that are in cache when a step uses them, by reuse distance.

The distance is the bytes touched since an operand's last use (LRU stack: Mattson, Gecsei, Slutz, Traiger 1970).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from kernels.devices import open_device
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from kernels.ops.optimizer.problem import RULES
from kernels.ops.update.problem import Update
from kernels.problem import Problem
from macro.changes.base import PredictionInput
from macro.explaining.rows import FLOAT, phase
from macro.networks.base import Network
from macro.networks.layer import Node, size

# Arrays that a row touches, by the names of a convolution's operands; x and dx once for each input of the layer
ARRAYS = {
    "forward": ("x", "w", "y"),
    "activation": ("y",),
    "loss": ("y", "dy"),
    "activation gradient": ("y", "dy"),
    "bias gradient": ("dy",),
    "gradient": ("x", "y", "dy", "dx"),
    "dgrad": ("dy", "w", "dx"),
    "wgrad": ("x", "dy", "dw"),
    "update": ("dw", "w", "state"),
}
MOSTLY = 0.5  # share of a kernel's bytes in cache above which its operands count as warm


def cold(asked: PredictionInput, row: str, x: Problem) -> str:
    """Return micro's --cold of a row's problem: "" if the step has most of it in cache, else `all`.

    It is all or nothing, as a sample is one long launch, before which no single operand can be brought into cache."""
    plan, (layer, _, role) = asked.unchanged.plan, row.rpartition(" ")
    rows = distances(plan.network, plan.batch, plan.phase) if asked.unchanged.script is None else {}
    if row not in rows or not isinstance(x, (Gemm, Conv, Update)):
        return "all"
    first, second, last = ARRAYS[role]
    if _exchanged(asked, row, x):
        first, second = second, first
    since = {**rows.get(f"{layer} update", {}), **rows[row]}  # an update fused into wgrad also touches the weights
    operands, cache = x.operands(), open_device("cpu").limits().usable_cache
    names = [operand.name for operand in operands]
    called = {**dict.fromkeys(names, last), **dict(zip(names, (first, second), strict=False)), "w": "w"}
    near = sum(operand.nbytes for operand in operands if since.get(called[operand.name], math.inf) <= cache)
    return "" if near > MOSTLY * sum(operand.nbytes for operand in operands) else "all"


def _exchanged(asked: PredictionInput, row: str, x: Problem) -> bool:
    """Return whether the framework computes the transpose of the row's product (unknown if m = n: False)."""
    product = asked.before.rows[row].product if row in asked.before.rows else None
    return isinstance(x, (Gemm, Update)) and product is not None and (x.m, x.n) != (product.m, product.n)


@lru_cache(maxsize=8)
def distances(network: Network, batch: int, phases: str) -> Mapping[str, Mapping[str, float]]:
    """Return each row's arrays with their reuse distances in bytes, the array itself included."""
    recent, kept = dict[str, float](), RULES[network.rule].state  # an LRU stack, the latest array last
    by_row: dict[str, dict[str, float]] = {}
    for _ in range(2):  # the first step has no history, the second step is the steady state
        for node, role in _order(network, phases):
            touched = {what: dict(_arrays(node, batch, kept, what)) for what in ARRAYS.get(role, ())}
            by_row[f"{node.name} {role}"] = {
                what: max((_since(recent, name) for name in arrays), default=0.0) for what, arrays in touched.items()
            }
            for arrays in touched.values():
                for name, taken in arrays.items():
                    recent.pop(name, None)
                    recent[name] = taken
    return by_row


def _order(network: Network, phases: str) -> Iterator[tuple[Node, str]]:
    """Yield layers and roles in a step's order: forward, the loss, back, and all updates."""
    nodes = network.nodes
    yield from ((node, role) for node in nodes for role in node.roles if phase(role) == "forward")
    if phases == "forward":
        return
    yield nodes[-1], "loss"
    yield from ((node, role) for node in reversed(nodes) for role in node.roles if phase(role) == "backward")
    if phases == "step":
        yield from ((node, role) for node in nodes for role in node.roles if phase(role) == "update")


def _arrays(node: Node, batch: int, kept: Sequence[str], what: str) -> Iterator[tuple[str, float]]:
    """Yield names and bytes of a layer's arrays of type `what`; `kept`: names of the optimizer's state."""
    if what in ("w", "dw", "state"):
        names = kept if what == "state" else [what]
        yield from ((f"{name} {node.name}", float(FLOAT * node.count)) for name in names)
    elif what in ("y", "dy"):
        yield f"{what} {node.name}", float(FLOAT * batch * size(node.output))
    else:
        for source, shape in zip(node.sources, node.inputs, strict=True):
            yield f"{what.replace('x', 'y')} {source}", float(FLOAT * batch * size(shape))


def _since(recent: Mapping[str, float], name: str) -> float:
    """Return the bytes touched since an array's last use, the array included; inf if never used."""
    if name not in recent:
        return math.inf
    order = list(recent)
    return sum(recent[other] for other in order[order.index(name) :])
