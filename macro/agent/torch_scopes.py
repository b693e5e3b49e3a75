"""Rows of PyTorch's operations in a network of any graph, by the scopes around its layers.

Events are as in torch_rows. A forward operation is inside its layer's scope, or that of the layer's activation; a
gradient belongs to the forward operation with its autograd node's sequence number; updates are assigned by the order of
the parameters.
"""

from __future__ import annotations

from typing import Any

import graphs  # beside this file
import torch_rows
from torch_rows import GRADIENTS, LOSS, LOSS_NODES, NODE

PARTS = ("copy", "clear")  # columns that stay, whatever a layer's kind of work
SUMS = ("add", "add_")  # by autograd's engine: sums of gradients of an output that several layers use


def align(events: list[dict[str, Any]], layers: list[dict[str, Any]], parameters: Any) -> list[Any]:
    """Return (rows, column) of each event.

    `layers`: of a network's plan; `parameters`: (layer, shape) in the optimizer's order.
    """
    return _Scopes(events, layers, parameters).assigned


class _Scopes(torch_rows._Alignment):
    def __init__(self, events: list[dict[str, Any]], layers: list[dict[str, Any]], parameters: Any) -> None:
        self.by_name = {spec["name"]: spec for spec in layers}
        self.scopes = {name + suffix: (name, suffix[1:]) for name in self.by_name for suffix in ("", " activation")}
        self.plan, self.work_kinds = layers, graphs.work_kinds(layers)
        self.around: dict[Any, tuple[str, str] | None] = {}  # {event: enclosing scope}
        super().__init__(events, 0, [(name, 0, 0) for name in self.by_name], parameters)

    def _event(self, i: int) -> tuple[list[str], str | None]:
        event = self.events[i]
        self.around[i] = self.scopes.get(event["name"], self.around.get(event["within"]))
        if event["name"] in self.scopes:
            return [self._forward_row(self.scopes[event["name"]])], None
        return super()._event(i)

    @staticmethod
    def _forward_row(scope: tuple[str, str]) -> Any:
        name, what = scope
        return "{} {}".format(name, what or "forward")

    def _forward(self, event: Any, short: str, around: Any, column: str | None) -> tuple[list[str], str | None]:
        scope = self.around[len(self.assigned)]  # events are processed in order
        if scope is not None:
            if event["sequence"] >= 0:
                self.linked[event["sequence"]] = scope
            return [self._forward_row(scope)], self._column(scope, column)
        return self._outside(short, around, column)

    def _backward(self, i: int, short: str, node: Any, around: Any, column: str | None) -> tuple[list[str], str | None]:
        if self.events[i]["name"].startswith(NODE):
            return torch_rows.FRAMEWORK, None
        if node in LOSS_NODES:
            return LOSS, column
        name, what = self.linked.get(self._sequence(i), (None, None))
        if name is None:
            return around or torch_rows.FRAMEWORK, column
        if short in SUMS and self._is_engine(i):
            row = graphs.joined(self.by_name[name], self.plan)
            return [row] if row else around, "element-wise"
        if what:
            return [f"{name} activation gradient"], column
        return self._of_layer(i, short, node, self.by_name[name]), self._column((name, what), column)

    def _column(self, scope: tuple[str, str], column: str | None) -> Any:
        name, what = scope
        return column if what or column in PARTS else self.work_kinds.get(name, column)

    def _is_engine(self, i: int) -> Any:
        """Return whether autograd's engine runs an operation directly, after a node's work."""
        return self.events[self.events[i]["within"]]["name"].startswith(NODE)

    def _of_layer(self, i: int, short: str, node: Any, spec: dict[str, Any]) -> Any:
        """Return the rows of an operation in a layer's gradient."""
        name = spec["name"]
        if spec["kind"] == "dense":
            if short == "mm":
                return self._dense(i, spec, GRADIENTS.get(node, ("wgrad", "dgrad")))
            roles = ["bias gradient"] if short == "sum" else ["wgrad", "dgrad"][: 2 - spec["first"]]
        elif spec["kind"] == "conv":
            roles = ["dgrad"] * (not spec["first"]) + ["wgrad"] + ["bias gradient"] * spec["bias"]
        else:
            roles = ["gradient"]
        return [f"{name} {role}" for role in roles]

    def _dense(self, i: int, spec: dict[str, Any], order: Any) -> list[Any]:
        beside = [x for x in self.inside[self.events[i]["within"]] if self.events[x]["name"] == "aten::mm"]
        role = "wgrad" if spec["first"] or len(beside) == 1 else order[beside.index(i) % 2]
        return ["{} {}".format(spec["name"], role)]
