"""Networks as data: a graph of layers, a loss and an optimizer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property
from typing import Any, get_type_hints

from macro.networks import layers as kinds
from macro.networks import optimizers
from macro.networks.layer import ACTIVATIONS, INPUT, Layer, Node, Shape, size
from macro.networks.layers import Dense, Embedding, Mean
from micro.planning.json_schema import check
from micro.planning.network import NETWORK as WRITTEN

# Keys of a network file: those of a shape file except measurements, and those of the input and the training.
NETWORK = {key: kind for key, kind in WRITTEN.items() if key not in ("measured", "convolutions")}
NETWORK |= {"input": list, "loss": str, "targets": str, "optimizer": str, "rho": float, "epsilon": float}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")  # valid in scopes of all frameworks
# Means over samples, and steps: cross-entropy of the softmax against the label; cross-entropy of sigmoids, and squared
# difference, both against targets and averaged over classes too.
LOSSES = ("softmax", "binary", "squared")
# Labels, of which targets are the one-hot rows (of one class: 0 or 1); the inputs; normal numbers.
TARGETS = ("labels", "input", "numbers")
TAKEN = (INPUT, "loss", "update")
SHAPES = ("inputs", "first")  # optional fields of a dense layer, checked against its place


@dataclass(frozen=True)
class Network:
    """A graph of layers, a loss of the last layer's outputs against labels or other targets, and an optimizer.

    Raises ValueError for layers that do not fit together.
    """

    name: str
    source: str  # publication or script, and the deviations from it
    batch: int
    layers: tuple[Layer, ...]
    rate: float
    momentum: float = 0.0
    input: Shape = ()  # shape of a sample
    loss: str = LOSSES[0]  # one of LOSSES
    targets: str = TARGETS[0]  # one of TARGETS
    optimizer: str = "sgd"  # one of optimizers.OPTIMIZERS
    rho: float = 0.0
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if self.batch < 1 or min(self.input, default=0) < 1:
            raise ValueError(f"batch {self.batch}, input {list(self.input)}: must be positive whole numbers")
        if not self.layers:
            raise ValueError("no layers")
        for name in (layer.name for layer in self.layers):
            if not NAME.fullmatch(name) or name in TAKEN:
                about = "letters, digits, _ and -, a letter or digit first, with dots between"
                raise ValueError(f"layer name {name!r}: must be {about}, and not {', '.join(TAKEN)}")
        called = {layer.name for layer in self.layers}
        if len(called) < len(self.layers):
            raise ValueError("two layers have the same name")
        if inside := [name for name in sorted(called) if called.intersection(_around(name))]:
            raise ValueError(f"layer name {inside[0]}: begins with the name of another layer and a dot")
        if not self.parameters:
            raise ValueError("no layer has parameters, so a step trains nothing")
        self._check_training()

    def _check_training(self) -> None:
        """Raise ValueError for an invalid loss, rate or optimizer."""
        if not 0 < self.rate < math.inf:
            raise ValueError(f"rate {self.rate:g}: must be positive and finite")
        optimizers.check(self.optimizer, self.momentum, self.rho, self.epsilon)
        if self.loss not in LOSSES:
            raise ValueError(f"loss {self.loss}: choose from {', '.join(LOSSES)}")
        if self.targets not in TARGETS:
            raise ValueError(f"targets {self.targets}: choose from {', '.join(TARGETS)}")
        if self.targets != TARGETS[0] and self.loss == "softmax":
            raise ValueError(f"targets {self.targets}: loss softmax requires labels")
        if self.targets == "input" and self.ids:
            raise ValueError("targets input: the inputs are ids; choose labels or numbers")
        if self.targets == "input" and self.nodes[-1].output != self.input:
            raise ValueError(f"targets input: {self.layers[-1].name} must output as many numbers as the input has")
        if len(self.nodes[-1].output) > 2:
            raise ValueError(f"the loss requires one output per class, but {self.layers[-1].name} outputs images")

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Layers with their sources and shapes. Raises ValueError for layers that do not fit together."""
        shapes: dict[str, Shape] = {INPUT: self.input}
        moved: dict[str, bool] = {INPUT: False}  # whether this layer or an earlier layer on its path has parameters
        before, nodes = INPUT, []
        for layer in self.layers:
            node = _placed(layer, before, shapes, moved)
            shapes[layer.name], before = node.output, layer.name
            moved[layer.name] = bool(node.parameters) or any(moved[x] for x in node.sources)
            nodes.append(node)
        _check_ids(nodes)
        _check_tied(nodes)
        if unused := sorted(set(shapes) - {before, INPUT} - {x for node in nodes for x in node.sources}):
            raise ValueError(f"no layer uses the output of {', '.join(unused)}")
        return tuple(nodes)

    @property
    def parameters(self) -> int:
        """Number of trained parameters."""
        return sum(node.count for node in self.nodes)

    @property
    def classes(self) -> int:
        """Number of classes: outputs of the last layer, in each step of a sequence."""
        return self.nodes[-1].output[-1]

    @property
    def places(self) -> int:
        """Number of labels of a sample: the steps of a last layer that outputs sequences, else 1."""
        return size(self.nodes[-1].output[:-1])

    @property
    def ids(self) -> int:
        """Least number of rows of the embeddings, which inputs are ids of; 0 if inputs are no ids."""
        return min((node.layer.rows for node in self.nodes if isinstance(node.layer, Embedding)), default=0)

    @property
    def padded(self) -> bool:
        """True if id 0 is padding, which a mean over steps leaves out."""
        return any(isinstance(node.layer, Mean) and INPUT in node.sources for node in self.nodes)

    @property
    def features(self) -> int:
        """Number of elements of a sample."""
        return size(self.input)

    @property
    def rule(self) -> str:
        """Name of the optimizer's rule in kernels/ops/optimizer."""
        return optimizers.rule(self.optimizer, self.momentum)

    def flops(self, batch: int, phase: str = "step") -> float:
        """Return the FLOP of a phase's products and convolutions, two per multiply-add.

        A step includes its update: 2 FLOP per parameter with plain SGD, 4 with momentum.
        """
        update = optimizers.flops(self.optimizer, self.momentum) * self.parameters if phase == "step" else 0
        return sum(node.flops(batch, phase) for node in self.nodes) + update

    def variant(self, suffix: str, source: str, **changes: Any) -> Network:
        """Return the variant `name:suffix`, with fields replaced by `changes`."""
        return replace(self, name=f"{self.name}:{suffix}", source=source, **changes)

    def data(self) -> dict[str, Any]:
        """Return the network as the JSON of a network file."""
        about = {"network": self.name, "source": self.source, "batch": self.batch}
        train = {"rate": self.rate, "momentum": self.momentum}
        if self.optimizer != "sgd":
            train |= self._moves()
        loss = {} if self.loss == LOSSES[0] else {"loss": self.loss}
        loss |= {} if self.targets == TARGETS[0] else {"targets": self.targets}
        return {**about, **train, **loss, "input": list(self.input), "layers": [layer.data() for layer in self.layers]}

    def plan(self) -> dict[str, Any]:
        """Return the network as JSON for an agent: layers include the shapes that follow from their places."""
        return {**self.data(), **self._moves(), "loss": self.loss, "layers": [node.data() for node in self.nodes]}

    def _moves(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer, "rho": self.rho, "epsilon": self.epsilon}


def _around(name: str) -> list[str]:
    """Return the enclosing names of a dotted name: `a` and `a.b` for `a.b.c`."""
    parts = name.split(".")
    return [".".join(parts[:i]) for i in range(1, len(parts))]


def _placed(layer: Layer, before: str, shapes: Mapping[str, Shape], moved: Mapping[str, bool]) -> Node:
    """Return a layer with its sources and shapes. Raises ValueError if it does not fit its sources."""
    sources = layer.after or (before,)
    if unknown := [name for name in sources if name not in shapes]:
        raise ValueError(f"{layer.name}: after names {unknown[0]}, which is not an earlier layer")
    if not layer.inputs_least <= len(sources) <= layer.inputs_most:
        most = "" if layer.inputs_most == layer.inputs_least else f" to {layer.inputs_most}"
        raise ValueError(f"{layer.name} requires {layer.inputs_least}{most} inputs, but has: {', '.join(sources)}")
    if layer.activation not in ACTIVATIONS:
        raise ValueError(f"{layer.name}: activation {layer.activation}: choose from {', '.join(ACTIVATIONS)}")
    inputs = tuple(shapes[name] for name in sources)
    try:
        output = layer.output(inputs)
    except ValueError as error:
        raise ValueError(f"{layer.name}: {error}") from None
    if min(output) < 1:
        raise ValueError(f"{layer.name} outputs {output}: output sizes must be positive")
    return Node(layer, sources, inputs, output, not any(moved[name] for name in sources))


def _check_ids(nodes: Sequence[Node]) -> None:
    """Raise ValueError if ids are taken for numbers, or numbers for ids."""
    for node in nodes:
        if isinstance(node.layer, Embedding) and node.sources != (INPUT,):
            raise ValueError(f"{node.name}: an embedding requires the network's input, not {node.sources[0]}")
    by_ids = [node.name for node in nodes if isinstance(node.layer, Embedding)]
    for node in nodes:
        masked = isinstance(node.layer, Mean) and node.sources[0] != INPUT
        if by_ids and INPUT in node.sources and node.name not in by_ids and not masked:
            raise ValueError(f"{node.name}: cannot take the input, which {by_ids[0]} takes as ids")
        if masked and any(source != INPUT for source in node.sources[1:]):
            raise ValueError(f"{node.name}: masks by ids, which are the input, not {node.sources[1]}")
        if masked and INPUT in node.sources and not by_ids:
            raise ValueError(f"{node.name}: masks by ids, but no embedding takes the input")


def _check_tied(nodes: Sequence[Node]) -> None:
    """Raise ValueError if a dense layer cannot have another layer's weights."""
    owners: dict[str, Shape] = {}
    for node in nodes:
        name = node.layer.tied if isinstance(node.layer, Dense) else ""
        if name and name not in owners:
            what = "no earlier dense layer or embedding with weights of its own"
            raise ValueError(f"{node.name}: tied names {name}, which is {what}")
        if name and owners[name] != (shape := (node.output[-1], node.inputs[0][-1])):
            raise ValueError(f"{node.name}: the weights of {name} are {owners[name]}, but must be {shape}")
        if isinstance(node.layer, (Dense, Embedding)) and not name:
            owners[node.name] = node.parameters["weight"].shape


def chain(
    name: str,
    source: str,
    batch: int,
    sizes: Sequence[int],
    rate: float,
    momentum: float = 0.0,
    hidden: str = "sigmoid",
) -> Network:
    """Return a network of dense layers only, with these sizes, input first; the outputs are logits."""
    inputs, *inner, outputs = sizes
    layers = [Dense(name=f"fc{i}", outputs=x, activation=hidden) for i, x in enumerate(inner, 1)]
    return Network(name, source, batch, (*layers, Dense(name="out", outputs=outputs)), rate, momentum, (inputs,))


def by_name(*networks: Network) -> dict[str, Network]:
    """Return networks by name, as for the variable NETWORKS of a network file."""
    return {network.name: network for network in networks}


def from_data(data: dict[str, Any]) -> Network:
    """Return the network of a JSON document. Raises ValueError.

    `inputs` of a dense first layer may replace the network's `input`.
    """
    check(data, NETWORK, ("network", "batch", "rate", "layers"))
    rows = [_row(row, f"layer {i}: ") for i, row in enumerate(data["layers"], 1)]
    given = data.get("input") or ([rows[0][1]["inputs"]] if rows and "inputs" in rows[0][1] else [])
    if not given:
        raise ValueError("input missing: give a sample's shape, e.g. [784], [3, 32, 32], or [32] ids")
    if any(type(x) is not int for x in given):
        raise ValueError(f"input: {given}, give whole numbers")
    about = {"name": data["network"], "source": str(data.get("source", "")), "batch": data["batch"]}
    moves = {"rate": float(data["rate"]), **optimizers.with_defaults(data)}
    places = {"input": tuple(given), "loss": data.get("loss", LOSSES[0]), "targets": data.get("targets", TARGETS[0])}
    network = Network(layers=tuple(layer for layer, _ in rows), **about, **moves, **places)
    for node, (_, stated) in zip(network.nodes, rows, strict=True):
        if stated.get("inputs", node.inputs[0][-1]) != node.inputs[0][-1]:
            raise ValueError(
                f"{node.name} expects {stated['inputs']} inputs, but {node.sources[0]} outputs {node.inputs[0][-1]}"
            )
        if stated.get("first") and not node.first:
            raise ValueError(f"{node.name}: first is true, but an earlier layer has parameters")
    return network


def _row(row: Any, place: str) -> tuple[Layer, dict[str, Any]]:
    """Parse a layer; return it and its stated `inputs` and `first`, if any. Raises ValueError."""
    if type(row) is not dict or type(row.get("kind", "")) is not str:
        raise ValueError(f"{place}{json.dumps(row)} is not a layer")
    try:
        kind = kinds.find(row.get("kind", "dense"))
    except ValueError as error:
        raise ValueError(f"{place}{error}") from None
    hints = get_type_hints(kind)
    types = {x.name: list if x.type.startswith("tuple") else hints[x.name] for x in fields(kind)}
    extra = {"kind": str, "inputs": int, "first": bool} if kind is Dense else {"kind": str}
    needed = [x.name for x in fields(kind) if x.default is MISSING]
    check(row, types | extra, needed, place)
    if row.get("tied") == "":
        raise ValueError(f"{place}tied: name a layer, or leave it out")
    if any(type(name) is not str for name in row.get("after", ())):
        raise ValueError(f"{place}after: {json.dumps(row['after'])}, give names of layers")
    values: dict[str, Any] = {name: tuple(x) if type(x) is list else x for name, x in row.items() if name in types}
    return kind(**values), {name: row[name] for name in SHAPES if name in row}
