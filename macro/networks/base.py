"""Network and Layer: shapes, what happens between them, how the loss is taken and the weights are moved."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from kernels.ops.gemm.problem import Gemm

PHASES = ("forward", "gradient", "step")
ACTIVATIONS = ("sigmoid", "relu", "none")


@dataclass(frozen=True)
class Layer:
    """Fully connected: y = activation(x·W + b), x batch×inputs, W inputs×outputs. The first layer of a network
    needs no gradient of its input."""

    name: str
    inputs: int
    outputs: int
    activation: str
    first: bool = False

    @property
    def parameters(self) -> int:
        """How many weights and biases it has."""
        return self.inputs * self.outputs + self.outputs

    def problems(self, batch: int, phase: str = "step") -> dict[str, Gemm]:
        """Its products by phase, W stored inputs×outputs, as micro measures them."""
        products = {"forward": Gemm(batch, self.outputs, self.inputs, "nn")}
        if phase != "forward":
            if not self.first:
                products["dgrad"] = Gemm(batch, self.inputs, self.outputs, "nt")
            products["wgrad"] = Gemm(self.inputs, self.outputs, batch, "tn")
        return products

    def flops(self, batch: int, phase: str) -> float:
        """Of its products, in one of the phases."""
        return sum(problem.flops for problem in self.problems(batch, phase).values())


@dataclass(frozen=True)
class Network:
    """Layers in order, softmax cross-entropy against integer labels, mean over the batch; SGD.

    `source`: where it comes from, and what it deviates in. `rate`, `momentum`: of the update.
    """

    name: str
    source: str
    batch: int
    layers: tuple[Layer, ...]
    rate: float
    momentum: float = 0.0

    @property
    def parameters(self) -> int:
        """How many weights and biases all layers have."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def gradient_bytes(self) -> int:
        """Of all gradients in single precision."""
        return 4 * self.parameters

    @property
    def classes(self) -> int:
        """Outputs of the last layer."""
        return self.layers[-1].outputs

    @property
    def features(self) -> int:
        """Inputs of the first layer."""
        return self.layers[0].inputs

    def flops(self, batch: int, phase: str = "step") -> float:
        """Of its products, a multiply-add as two; the update's 2 a parameter (4 with momentum) included."""
        update = (4 if self.momentum else 2) * self.parameters if phase == "step" else 0
        return sum(layer.flops(batch, phase) for layer in self.layers) + update

    def data(self) -> dict[str, Any]:
        """For a worker in another environment, and for micro/shapes."""
        fields = asdict(self)
        return {"network": fields.pop("name"), **fields}


def dense(*sizes: int, hidden: str = "sigmoid") -> tuple[Layer, ...]:
    """Layers of these sizes; the last has no activation: the loss takes logits."""
    last = len(sizes) - 2
    return tuple(
        Layer("out" if i == last else f"fc{i + 1}", sizes[i], sizes[i + 1], "none" if i == last else hidden, i == 0)
        for i in range(last + 1)
    )


def from_data(data: dict[str, Any]) -> Network:
    """The inverse of `data`. Raises ValueError, KeyError, TypeError."""
    layers = tuple(Layer(**layer) for layer in data["layers"])
    if not layers or any(x.activation not in ACTIVATIONS for x in layers):
        raise ValueError(f"layers have one of the activations {', '.join(ACTIVATIONS)}")
    for before, after in itertools.pairwise(layers):
        if before.outputs != after.inputs:
            raise ValueError(f"{after.name} takes {after.inputs}, {before.name} gives {before.outputs}")
        if after.first:
            raise ValueError(f"{after.name} is not the first layer")
    if len({layer.name for layer in layers}) < len(layers):
        raise ValueError("two layers of one name")
    network = Network(data["network"], "", int(data["batch"]), layers, float(data["rate"]))
    network = replace(network, source=str(data.get("source", "")), momentum=float(data.get("momentum", 0.0)))
    if min(network.batch, *(size for layer in layers for size in (layer.inputs, layer.outputs))) < 1:
        raise ValueError("the batch, inputs and outputs of layers are positive whole numbers")
    if not (math.isfinite(network.rate) and math.isfinite(network.momentum)):
        raise ValueError("rate and momentum are finite")
    return network
