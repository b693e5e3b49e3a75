"""Base classes of a network's layers; the kinds of layers are in macro/networks/layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    from kernels.problem import Problem

# Of a sample, without the batch: features; steps and features; channels, rows and columns. Ids have steps alone.
Shape: TypeAlias = tuple[int, ...]
INPUT = "input"  # name of the source that is the batch of data
PHASES = ("forward", "gradient", "step")
ACTIVATIONS = ("sigmoid", "relu", "tanh", "none")


@dataclass(frozen=True)
class Parameter:
    """An array of a layer (trained, or state), and the distribution of its initial values."""

    shape: Shape
    terms: int = 0  # fan-in: initial values are normal, divided by its root; 0: small values, for a bias
    base: float = 0.0  # mean of the initial values

    @property
    def count(self) -> int:
        """Number of elements of the array."""
        return size(self.shape)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer of a network without its shapes, which follow from its place (Node)."""

    kind: ClassVar[str] = ""
    roles: ClassVar[tuple[str, ...]] = ("forward", "gradient")  # parts of a step, without the activation's
    inputs_least: ClassVar[int] = 1
    inputs_most: ClassVar[int] = 1

    name: str
    after: tuple[str, ...] = ()  # source layers, `input` for the data; (): the previous layer
    activation: str = "none"  # of the output

    def output(self, inputs: Sequence[Shape]) -> Shape:
        """Return the shape of the output. Raises ValueError for inputs that the layer cannot take."""
        return inputs[0]

    def parameters(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        """Return trained parameters by name."""
        return {}

    def state(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        """Return by name the arrays kept between steps without a gradient, such as running statistics."""
        return {}

    def problems(self, node: Node, batch: int) -> Mapping[str, tuple[Problem, ...]]:
        """Return GEMMs and convolutions by role, as problems that micro measures."""
        return {}

    def bytes(self, node: Node, batch: int, role: str) -> float:
        """Return the minimum bytes that a role reads and writes beside its GEMMs and convolutions."""
        return 4.0 * batch * (sum(map(size, node.inputs)) + size(node.output))

    def data(self) -> dict[str, Any]:
        """Return the JSON of a network file: the fields that differ from their defaults."""
        plain = {x.name: x.default for x in fields(self)}
        changed = {name: value for name, value in asdict(self).items() if value != plain[name]}
        return {"name": changed.pop("name"), "kind": self.kind, **changed}


@dataclass(frozen=True)
class Node:
    """A layer in its place in a network, with sources and shapes."""

    layer: Layer
    sources: tuple[str, ...]  # layers whose outputs are its inputs
    inputs: tuple[Shape, ...]
    output: Shape
    first: bool  # whether it needs no input gradient: no earlier layer has parameters

    @property
    def name(self) -> str:
        """Name of the layer."""
        return self.layer.name

    @property
    def activation(self) -> str:
        """Activation of the output."""
        return self.layer.activation

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """Trained parameters by name."""
        return self.layer.parameters(self.inputs)

    @cached_property
    def state(self) -> Mapping[str, Parameter]:
        """Arrays kept between steps without a gradient, such as running statistics, by name."""
        return self.layer.state(self.inputs)

    @property
    def count(self) -> int:
        """Number of trained parameters."""
        return sum(x.count for x in self.parameters.values())

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of a step for this layer, in order."""
        acts = ("activation", "activation gradient") if self.activation != "none" else ()
        none = not self.parameters
        without = {"dgrad": self.first, "bias gradient": "bias" not in self.parameters, "update": none}
        without["gradient"] = without["activation gradient"] = self.first and none  # no earlier layer is trained
        kept = [role for role in self.layer.roles if not without.get(role)]
        forward, rest = [x for x in kept if x == "forward"], [x for x in kept if x != "forward"]
        return tuple(role for role in (*forward, *acts, *rest) if not without.get(role))

    def problems(self, batch: int, phase: str = "step") -> Mapping[str, tuple[Problem, ...]]:
        """Return the GEMMs and convolutions of a phase, by role."""
        wanted = ("forward",) if phase == "forward" else self.roles
        return {role: x for role, x in self.layer.problems(self, batch).items() if role in wanted}

    def flops(self, batch: int, phase: str) -> float:
        """Return the FLOP of a phase's GEMMs and convolutions."""
        return sum(problem.flops for problems in self.problems(batch, phase).values() for problem in problems)

    def bytes(self, batch: int, role: str) -> float:
        """Return the minimum bytes that a role reads and writes beside its GEMMs and convolutions."""
        out = 4.0 * batch * size(self.output)
        if role.startswith("activation"):
            return out * (3 if role.endswith("gradient") else 2)
        return self.layer.bytes(self, batch, role)

    def data(self) -> dict[str, Any]:
        """Return the layer as JSON for an agent: all its fields, and the shapes that follow from its place."""
        return {
            **asdict(self.layer),
            "kind": self.layer.kind,
            "after": list(self.sources),
            "inputs": self.inputs[0][-1] if len(self.inputs[0]) == 2 else size(self.inputs[0]),
            "in": [list(shape) for shape in self.inputs],
            "out": list(self.output),
            "first": self.first,
            "parameters": {name: list(x.shape) for name, x in self.parameters.items()},
            "state": {name: list(x.shape) for name, x in self.state.items()},
        }


def size(shape: Sequence[int]) -> int:
    """Return the number of elements of a shape."""
    count = 1
    for length in shape:
        count *= length
    return count


def four(pads: Sequence[Any]) -> tuple[int, int, int, int]:
    """Return padding above, left, below, right; zeros if `pads` is empty. Raises ValueError."""
    if not pads:
        return 0, 0, 0, 0
    if len(pads) != 4 or any(type(x) is not int or x < 0 for x in pads):
        raise ValueError(f"pads {list(pads)}: must be four whole numbers: top, left, bottom, right")
    top, left, bottom, right = pads
    return top, left, bottom, right


def image(inputs: Sequence[Shape], what: str) -> Shape:
    """Return the first input's shape: channels, rows, columns. Raises ValueError if it is not an image."""
    if len(inputs[0]) != 3:
        raise ValueError(f"{what} requires an image (channels × rows × columns), not {inputs[0]}")
    return inputs[0]
