"""Operands that a step has in cache at their use, by reuse distance.

The distance is the bytes touched since an operand was last touched (LRU stacks: Mattson, Gecsei, Slutz, Traiger 1970).
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

# Arrays that a row touches, by a convolution's names; x and dx of each layer before it
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
MOSTLY = 0.5  # of a kernel's bytes


def cold(asked: PredictionInput, row: str, x: Problem) -> str:
    """Return the value of micro's --cold: `all`, or none where the step has most bytes in its last cache.

    A sample has one long launch, before which nothing brings one operand into cache and not another."""
    plan, (layer, _, role) = asked.unchanged.plan, row.rpartition(" ")
    rows = distances(plan.network, plan.batch, plan.phase) if asked.unchanged.script is None else {}
    if row not in rows or not isinstance(x, (Gemm, Conv, Update)):
        return "all"
    first, second, last = ARRAYS[role]
    if _exchanged(asked, row, x):
        first, second = second, first
    since = {**rows.get(f"{layer} update", {}), **rows[row]}  # an update within wgrad has its weights
    operands, cache = x.operands(), open_device("cpu").limits().usable_cache
    names = [operand.name for operand in operands]
    called = {**dict.fromkeys(names, last), **dict(zip(names, (first, second), strict=False)), "w": "w"}
    near = sum(operand.nbytes for operand in operands if since.get(called[operand.name], math.inf) <= cache)
    return "" if near > MOSTLY * sum(operand.nbytes for operand in operands) else "all"


def _exchanged(asked: PredictionInput, row: str, x: Problem) -> bool:
    """Return whether the framework computes the transpose of the row's product, unless it is square."""
    product = asked.before.rows[row].product if row in asked.before.rows else None
    return isinstance(x, (Gemm, Update)) and product is not None and (x.m, x.n) != (product.m, product.n)


@lru_cache(maxsize=8)
def distances(network: Network, batch: int, phases: str) -> Mapping[str, Mapping[str, float]]:
    """Return, for each array of each row, the bytes that layers touched since it was, its own too."""
    recent, kept = dict[str, float](), RULES[network.rule].state  # what was touched last comes last
    by_row: dict[str, dict[str, float]] = {}
    for _ in range(2):  # what the first step of a process touches first, another has touched before
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
    """Yield names and bytes of arrays. `kept`: the optimizer's state beside the weights."""
    if what in ("w", "dw", "state"):
        names = kept if what == "state" else [what]
        yield from ((f"{name} {node.name}", float(FLOAT * node.count)) for name in names)
    elif what in ("y", "dy"):
        yield f"{what} {node.name}", float(FLOAT * batch * size(node.output))
    else:
        for source, shape in zip(node.sources, node.inputs, strict=True):
            yield f"{what.replace('x', 'y')} {source}", float(FLOAT * batch * size(shape))


def _since(recent: Mapping[str, float], name: str) -> float:
    """Return the bytes touched since an array was."""
    if name not in recent:
        return math.inf
    order = list(recent)
    return sum(recent[other] for other in order[order.index(name) :])
