"""The rows of a network's step, their nominal work, and the groups that fused operations make of them."""

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
    """A row of the table of a step."""

    name: str
    layer: str
    phase: str  # forward, backward, update, or the row itself
    problems: tuple[Problem, ...]  # its products and convolutions
    bytes: float  # read and written by one pass over the data that it touches

    @property
    def product(self) -> Gemm | None:
        """The only problem, if it is a product of two matrices; else None."""
        products = [x for x in self.problems if isinstance(x, Gemm)]
        return products[0] if len(self.problems) == len(products) == 1 else None

    @property
    def flops(self) -> float:
        """Nominal FLOP of the problems."""
        return sum(problem.flops for problem in self.problems)


def rows(network: Network, batch: int) -> dict[str, Row]:
    """Return the rows of a network by name, in the order of a step."""
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
    logits = FLOAT * batch * network.classes
    passes = 2.0 if network.loss == "softmax" else 3.0  # of other losses the targets are as large as the outputs
    for name in WIDE:
        by_name[name] = Row(name, "", name, (), passes * logits if name == "loss" else 0.0)
    return by_name


def phase(role: str) -> str:
    """Return the phase of a role: forward, backward or update."""
    if role in ("forward", "activation"):
        return "forward"
    return "update" if role == "update" else "backward"


def groups(spans: Iterable[Sequence[str]], by_name: Mapping[str, Row]) -> dict[str, tuple[str, ...]]:
    """Return the group of each row, those that one operation serves together, but for passes over data."""
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
    """Return whether an operation for these rows is no product, and each row is known to touch data."""
    return all(name in by_name and by_name[name].bytes > 0 and not by_name[name].problems for name in names)


def together(names: Sequence[str], group: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the group of a span's rows; the rows themselves if of several groups; OUTSIDE without rows."""
    if len({group.get(name, (name,)) for name in names}) > 1:
        return tuple(names)
    return group.get(names[0], tuple(names)) if names else (OUTSIDE,)


def called(members: Iterable[str], by_name: Mapping[str, Row]) -> str:
    """Return a group's name, layers by their roles: `fc1 wgrad + update`, `fc1, fc2, out update`."""
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
