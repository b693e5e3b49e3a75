"""Rows of a network's step, their nominal work, and the groups of rows that fused operations serve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernels.ops.gemm.problem import Gemm
from kernels.ops.optimizer.problem import RULES
from kernels.problem import Problem
from macro.networks.base import Network
from macro.networks.layer import size

PRODUCTS = ("forward", "dgrad", "wgrad")
ROLES = ("activation", "activation gradient", "gradient", "gradient sum", "dgrad", "wgrad", "bias gradient")
OUTSIDE = "in no span"
WAITING = "waiting"
WIDE = ("loss", "gradient sums", "input", "free gradients", "parameter copy", "layout", "framework", OUTSIDE, WAITING)
FLOAT = 4  # bytes


@dataclass(frozen=True)
class Row:
    """A row of a step's breakdown: one layer in one role, or an item of the whole step such as the loss."""

    name: str
    layer: str
    phase: str  # forward, backward, update, or the row itself
    problems: tuple[Problem, ...]  # the row's matrix products and convolutions
    bytes: float  # memory traffic of one pass over the row's operands, reads and writes

    @property
    def product(self) -> Gemm | None:
        """The row's matrix product; None if the row has another problem, several or none."""
        products = [x for x in self.problems if isinstance(x, Gemm)]
        return products[0] if len(self.problems) == len(products) == 1 else None

    @property
    def flops(self) -> float:
        """Nominal FLOP of the problems."""
        return sum(problem.flops for problem in self.problems)


def rows(network: Network, batch: int) -> dict[str, Row]:
    """Return the rows of a network's step by name, layer by layer, then the rows that belong to no layer."""
    by_name = {}
    taken = Counter(source for node in network.nodes for source in node.sources)
    for node in network.nodes:
        problems = node.problems(batch)
        for role in node.roles:
            moved = float(RULES[network.rule].bytes * node.count)
            touched = moved if role == "update" else node.bytes(batch, role)
            name = f"{node.name} {role}"
            by_name[name] = Row(name, node.name, phase(role), problems.get(role, ()), touched)
        if taken[node.name] > 1:
            name = f"{node.name} gradient sum"
            sums = 3.0 * FLOAT * batch * size(node.output) * (taken[node.name] - 1)
            by_name[name] = Row(name, node.name, "backward", (), sums)
    logits = FLOAT * batch * network.places * network.classes
    passes = 2.0 if network.loss == "softmax" else 3.0  # other losses read targets as large as the outputs
    for name in WIDE:
        by_name[name] = Row(name, "", name, (), passes * logits if name == "loss" else 0.0)
    return by_name


def phase(role: str) -> str:
    """Return the phase that a row's role belongs to: forward, backward or update."""
    if role in ("forward", "activation"):
        return "forward"
    return "update" if role == "update" else "backward"


def groups(spans: Iterable[Sequence[str]], by_name: Mapping[str, Row]) -> dict[str, tuple[str, ...]]:
    """Map each row to its group: the rows that a fused operation serves; pure memory passes stay apart."""
    group: dict[str, list[str]] = {}
    for names in spans:
        if passes(names, by_name):
            for name in names:
                group.setdefault(name, [name])
            continue
        together: list[str] = []
        for name in names:
            together += [x for x in group.get(name, [name]) if x not in together]
        for name in together:
            group[name] = together
    return {name: tuple(members) for name, members in group.items()}


def passes(names: Sequence[str], by_name: Mapping[str, Row]) -> bool:
    """Return whether these rows are memory passes only: known, with bytes, no products or convolutions."""
    return all(name in by_name and by_name[name].bytes > 0 and not by_name[name].problems for name in names)


def together(names: Sequence[str], group: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the group of a span's rows, or the rows if their groups differ, or OUTSIDE if there are none."""
    if len({group.get(name, (name,)) for name in names}) > 1:
        return tuple(names)
    return group.get(names[0], tuple(names)) if names else (OUTSIDE,)


def called(members: Iterable[str], by_name: Mapping[str, Row]) -> str:
    """Return a group's name, layers joined by role: `fc1 wgrad + update`, `fc1, fc2, out update`."""
    order = list(by_name)
    names = sorted(set(members), key=lambda name: order.index(name) if name in by_name else len(order))
    layers = list(dict.fromkeys(by_name[name].layer for name in names if name in by_name and by_name[name].layer))
    others = [name for name in names if name not in by_name or not by_name[name].layer]
    roles: dict[tuple[str, ...], list[str]] = {}
    for layer in layers:
        does = tuple(
            name.removeprefix(f"{layer} ") for name in names if name in by_name and by_name[name].layer == layer
        )
        roles.setdefault(does, []).append(layer)
    parts = [f"{', '.join(of)} {' + '.join(does)}" for does, of in roles.items()]
    return "; ".join(parts + others)
