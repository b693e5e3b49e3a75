"""Spans of a PyTorch program from profiler events, by module, phase and kind; the tree of its modules.

Backward is linked to forward by autograd's sequence numbers. With gradients enabled, an operation reports the next
number. An operation that creates no node shares this number with the next operation, so a node's creator is the last
operation with the greatest number not above the node's number. The profiler reports a node twice, the second time with
another number that no operation has.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from macro.explaining import kinds
from macro.watching.recording import Event
from reports.explanation import Module, Part

FOLDED = 3  # from so many alike siblings on, they are shown as one line
# Prefixes and names of spans, as the agent writes them.
MODULE, UPDATE, CLOSURE, STOPPED = "kg/module/", "kg/update/", "kg/closure", "kg/stopped"
NODE = "autograd::engine::evaluate_function: "
ACCUMULATES = "AccumulateGrad"
CHECKPOINT = "CheckpointFunctionBackward"  # reentrant checkpointing: the operations that it calls are recomputed
LOADER, ZERO, STEP = "enumerate(DataLoader)", "Optimizer.zero_grad#", "Optimizer.step#"
PHASES = (
    "data",
    "forward",
    "loss",
    "backward",
    "double backward",
    "recompute",
    "update",
    "zero",
    "copy",
    "logging",
    "script",
)
LOSSES = ("loss", "cross_entropy", "nll", "mse", "kl_div", "softmax")  # words in the name of an operation of no module
COPIES = tuple(f"aten::{x}" for x in ("to", "_to_copy", "copy_", "clone", "contiguous", "pin_memory", "cpu"))
LOGS = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::tolist", "aten::equal")


@dataclass(frozen=True)
class Where:
    """A module's path, or a word in parentheses outside all modules, with a phase."""

    path: str
    phase: str

    @property
    def row(self) -> str:
        """The name of the row: path and phase."""
        return f"{self.path} {self.phase}"


IN_CLOSURE = Where("(closure)", "script")  # an optimizer's closure, but for its operations


@dataclass
class _Open:
    """An event that may enclose later events."""

    event: Event
    where: Where | None
    node: bool  # the event is, or is inside, a node of autograd
    updates: bool  # the event is inside an optimizer's step


@dataclass
class _Lane:
    """State of a profiler thread: its operations' sequence numbers and places, and the last node's place."""

    numbers: list[tuple[int, int]] = field(default_factory=list)
    places: list[Where | None] = field(default_factory=list)
    last: Where | None = None


def spans(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return spans in order of start, outer spans first, each with rows, column and system thread."""
    return [
        {
            "start": event.start,
            "end": event.end,
            "name": event.name,
            "rows": [where.row] if where else [],
            "column": column,
            "thread": event.thread,
        }
        for event, where, column in placed(events)
    ]


def placed(events: Sequence[Event]) -> Iterator[tuple[Event, Where | None, str | None]]:
    """Yield each event, in order of start, with its place and its kind of work, None if unknown."""
    lanes: dict[int, _Lane] = {}
    open_: dict[int, list[_Open]] = {}
    ordered = sorted(events, key=lambda e: (e.start, -e.end))
    unmade = _unmade(ordered)
    for event in ordered:
        above = open_.setdefault(event.thread, [])
        while above and above[-1].event.end <= event.start:
            above.pop()
        up = above[-1] if above else None
        where = _where(event, up, lanes)
        is_node = event.name.startswith(NODE)
        again = up is not None and up.event.name == NODE + event.name  # the second report of the enclosing node
        if event.sequence >= 0 and not is_node and not again:
            lane = lanes.setdefault(event.lane, _Lane())
            lane.numbers.append((event.sequence, event.start))
            lane.places.append(where)
        updates = event.name.startswith(UPDATE) or bool(
            up and up.updates and not event.name.startswith((MODULE, CLOSURE))
        )
        above.append(_Open(event, where, is_node or bool(up and up.node), updates))
        column = _column(event, updates)
        if event.name == "aten::copy_" and up is not None and up.event.name == "aten::_to_copy":
            column = "cast"  # on a CPU a conversion changes the type
        yield event, where, "dispatch" if column == "gemm" and id(event) in unmade else column


def _unmade(ordered: Sequence[Event]) -> set[int]:
    """Return the ids of events in which a recomputation stopped early, as backward had all it needs.

    A product saves its factors before it runs, so a product that stopped did not run. Saving calls detach."""
    last, ids = dict[int, Event](), set[int]()
    for event in ordered:
        if event.name == STOPPED and event.thread in last:
            ids.add(id(last[event.thread]))
        elif not event.name.startswith((MODULE, "aten::detach", "detach")):
            last[event.thread] = event
    return ids


def _where(event: Event, up: _Open | None, lanes: dict[int, _Lane]) -> Where | None:
    name, around = event.name, up.where if up and up.where is not IN_CLOSURE else None
    if name == CLOSURE:
        return IN_CLOSURE
    if name.startswith(MODULE):
        return Where(name[len(MODULE) :], "recompute" if up and up.node else "forward")
    if name.startswith(UPDATE):
        return Where(name[len(UPDATE) :], "update")
    if name.startswith(NODE):
        return _backward(event, lanes, around)
    if name.startswith(ZERO):
        return Where(f"({name[len(ZERO) :].partition('.')[0]}.zero_grad)", "zero")
    if name.startswith(LOADER):
        return Where("(data loader)", "data")
    if around is not None and up is not None and up.event.name == CHECKPOINT:
        return Where(around.path, "recompute")
    if around is not None or name.startswith(STEP):
        return around
    short = name.partition("::")[2] or name
    return Where(f"({short})", _phase(name))


def _backward(event: Event, lanes: dict[int, _Lane], around: Where | None) -> Where | None:
    """Return the place of a node, from the operation that created it, or the last node's if accumulating."""
    current = lanes.setdefault(event.lane, _Lane())
    if event.sequence < 0 or event.name.endswith(ACCUMULATES):
        return current.last or around
    lane = lanes.get(event.forward, _Lane()) if event.forward else current
    at = bisect.bisect_right(lane.numbers, (event.sequence, inf)) - 1
    origin = lane.places[at] if at >= 0 else None
    if origin is None:
        current.last = Where("(no module)", "backward")
    else:
        current.last = Where(origin.path, "double backward" if "backward" in origin.phase else "backward")
    return current.last


def _phase(name: str) -> str:
    """Return the phase of an operation outside all modules: loss, logging, copy or script."""
    if any(word in name for word in LOSSES):
        return "loss"
    if name in LOGS:
        return "logging"
    return "copy" if name in COPIES else "script"


def _column(event: Event, updates: bool) -> str | None:
    """Return an event's kind of work by its name: dispatch for a composite, None to classify by symbols."""
    name = event.name
    if name.startswith(LOADER):
        return "data"
    if name.startswith((MODULE, UPDATE, CLOSURE, NODE, ZERO, STEP)) or not kinds.known(name):
        return None
    kind = kinds.of_operation(name) or "dispatch"
    return "optimizer" if updates and kind in ("element-wise", "reduction") else kind


@dataclass
class _Node:
    """A node of the module tree, with its cells and child nodes."""

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
        """Return the descendants' names, nested; siblings with the same names are alike."""
        return tuple((name, node.shape()) for name, node in sorted(self.below.items()))


def tree(cells: Sequence[Part]) -> list[Module]:
    """Return the modules depth-first, siblings by time, the longest first."""
    root = _Node("")
    for cell in cells:
        node = root
        for part in [cell.path] if cell.path.startswith("(") or cell.path == cell.row else cell.path.split("."):
            node = node.below.setdefault(part, _Node(part))
        node.cells.append(cell)
    return list(_lines(_folded(root), "", -1))


def _folded(node: _Node) -> _Node:
    """Fold runs of alike numbered children into one child, named such as `0–11`."""
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
    """Merge alike nodes into one node of this name, children merged by name."""
    names = dict.fromkeys(name for node in nodes for name in node.below)
    below = {x: _merged(x, [node.below[x] for node in nodes if x in node.below]) for x in names}
    return _Node(name, [cell for node in nodes for cell in node.cells], below, len(nodes))


def _lines(node: _Node, path: str, depth: int) -> Iterator[Module]:
    if depth >= 0:
        phases, columns = defaultdict[str, float](float), defaultdict[str, float](float)
        for cell in node.all():
            phases[cell.phase or cell.row] += cell.a
            columns[cell.column] += cell.a
        yield Module(path, depth, node.count, dict(phases), max(columns, key=columns.__getitem__))
    for child in sorted(node.below.values(), key=lambda x: -sum(cell.a for cell in x.all())):
        yield from _lines(child, f"{path}.{child.name}" if path else child.name, depth + 1)
