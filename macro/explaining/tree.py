"""The cells of a step as a tree of modules, alike siblings in a row folded into one."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from reports.breakdown import Module, Part

NUMBERED = re.compile(r"(.*?)\.?(\d+)$")
FOLDED = 3  # siblings from which on they are one line


@dataclass
class _Node:
    """A path, with its cells and the nodes below it."""

    name: str
    cells: list[Part] = field(default_factory=list)
    below: dict[str, _Node] = field(default_factory=dict)
    count: int = 1

    def all(self) -> Iterator[Part]:
        """Yield the cells of this node and of all below it."""
        yield from self.cells
        for node in self.below.values():
            yield from node.all()

    def shape(self) -> tuple[object, ...]:
        """Return the names below at all depths, which alike siblings share."""
        return tuple((name, node.shape()) for name, node in sorted(self.below.items()))


def modules(cells: Sequence[Part]) -> list[Module]:
    """Return the modules, outer ones first, in the order of their time."""
    root = _Node("")
    for cell in cells:
        node = root
        for part in [cell.path] if cell.path.startswith("(") or cell.path == cell.row else cell.path.split("."):
            node = node.below.setdefault(part, _Node(part))
        node.cells.append(cell)
    return list(_lines(_folded(root), "", -1))


def _folded(node: _Node) -> _Node:
    """Fold numbered children that are alike into one, `0–11`."""
    names = sorted(node.below, key=lambda name: (0, int(name)) if name.isdigit() else (1, 0))
    below: dict[str, _Node] = {}
    for _, alike in itertools.groupby(names, key=lambda name: node.below[name].shape() if name.isdigit() else name):
        group = [node.below[name] for name in alike]
        if len(group) < FOLDED or not group[0].name.isdigit() or not group[0].below:
            below |= {child.name: _folded(child) for child in group}
            continue
        merged = _merged(f"{group[0].name}–{group[-1].name}", group)
        below[merged.name] = _folded(merged)
    return _Node(node.name, node.cells, below, node.count)


def _merged(name: str, nodes: Sequence[_Node]) -> _Node:
    """Merge nodes into one, children by name."""
    names = dict.fromkeys(name for node in nodes for name in node.below)
    below = {x: _merged(x, [node.below[x] for node in nodes if x in node.below]) for x in names}
    return _Node(name, [cell for node in nodes for cell in node.cells], below, len(nodes))


def _lines(node: _Node, path: str, depth: int) -> Iterator[Module]:
    if depth >= 0:
        phases: Counter[str] = Counter()
        columns: Counter[str] = Counter()
        for cell in node.all():
            phases[cell.phase or cell.row] += cell.a  # type: ignore[assignment]
            columns[cell.column] += cell.a  # type: ignore[assignment]
        yield Module(path, depth, node.count, dict(phases), columns.most_common(1)[0][0])
    for child in sorted(node.below.values(), key=lambda x: -sum(cell.a for cell in x.all())):
        yield from _lines(child, f"{path}.{child.name}" if path else child.name, depth + 1)
