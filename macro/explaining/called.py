"""Operations of a step by name: the modules that call them, the axes of their inputs, and their calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reports.explanation import CalledIn

THIN = "thin product"  # name of products of few columns whose left operand is one matrix for each of a batch
LOW_RANK = "weight of low rank"  # name of products of two thin factors whose result is a linear layer's weight


@dataclass
class Places:
    """Places of operations, to which each call of a step is added."""

    paths: dict[str, dict[str, None]] = field(default_factory=dict)  # modules, in order
    axes: dict[str, int] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, path: str, shapes: Sequence[Any]) -> None:
        """Add a call of an operation, with the shapes of its inputs, in the module at `path`."""
        if "::" in name or name.startswith("kg/"):
            return
        self.paths.setdefault(name, {})[path] = None
        self.axes[name] = max([self.axes.get(name, 0), *map(len, shapes)])
        self.calls[name] += 1

    def by_name(self) -> dict[str, CalledIn]:
        """Return the places of each operation."""
        return {name: CalledIn(tuple(paths), self.axes[name], self.calls[name]) for name, paths in self.paths.items()}
