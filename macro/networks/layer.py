"""Layers of networks: what all kinds have in common; the kinds are in macro/networks/layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    from kernels.problem import Problem

Shape: TypeAlias = tuple[int, ...]  # of a sample, without the batch: features, or channels, rows and columns
INPUT = "input"  # the source that is no layer: a batch of data
PHASES = ("forward", "gradient", "step")
ACTIVATIONS = ("sigmoid", "relu", "none")


@dataclass(frozen=True)
class Parameter:
    """An array that an optimizer updates, and how its first values are drawn."""

    shape: Shape
    terms: int = 0  # of the sums it is a factor in, which scale its normal numbers; 0: small and added
    base: float = 0.0  # the value it lies around

    @property
    def count(self) -> int:
        """Numbers in the array."""
        return size(self.shape)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer by itself, before its place in a network gives it shapes."""

    kind: ClassVar[str] = ""
    roles: ClassVar[tuple[str, ...]] = ("forward", "gradient")  # parts of a step, except those of the activation
    inputs_least: ClassVar[int] = 1
    inputs_most: ClassVar[int] = 1

    name: str
    after: tuple[str, ...] = ()  # sources, `input` for the data; (): the layer before
    activation: str = "none"  # of the output

    def output(self, inputs: Sequence[Shape]) -> Shape:
        """Return the shape of the output. Raises ValueError for inputs that the layer cannot take."""
        return inputs[0]

    def parameters(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        """Return trained parameters by name."""
        return {}

    def state(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        """Return by name what is kept between steps and updated by no gradient."""
        return {}

    def problems(self, node: Node, batch: int) -> Mapping[str, tuple[Problem, ...]]:
        """Return products and convolutions by role, as micro measures them."""
        return {}

    def bytes(self, node: Node, batch: int, role: str) -> float:
        """Return the minimum bytes that a role reads and writes, beside those of its problems."""
        return 4.0 * batch * (sum(map(size, node.inputs)) + size(node.output))

    def data(self) -> dict[str, Any]:
        """Return the JSON of a network file: the fields that differ from their defaults."""
        plain = {x.name: x.default for x in fields(self)}
        changed = {name: value for name, value in asdict(self).items() if value != plain[name]}
        return {"name": changed.pop("name"), "kind": self.kind, **changed}


@dataclass(frozen=True)
class Node:
    """A layer in its place in a network."""

    layer: Layer
    sources: tuple[str, ...]  # layers whose outputs it takes
    inputs: tuple[Shape, ...]
    output: Shape
    first: bool  # no earlier layer is trained: needs no gradient of its inputs

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
        """Arrays kept between steps and updated by no gradient, by name."""
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
        without["gradient"] = without["activation gradient"] = self.first and none  # nothing before it is moved
        kept = [role for role in self.layer.roles if not without.get(role)]
        forward, rest = [x for x in kept if x == "forward"], [x for x in kept if x != "forward"]
        return tuple(role for role in (*forward, *acts, *rest) if not without.get(role))

    def problems(self, batch: int, phase: str = "step") -> Mapping[str, tuple[Problem, ...]]:
        """Return products and convolutions of a phase by role."""
        wanted = ("forward",) if phase == "forward" else self.roles
        return {role: x for role, x in self.layer.problems(self, batch).items() if role in wanted}

    def flops(self, batch: int, phase: str) -> float:
        """Return the operations of a phase's products and convolutions."""
        return sum(problem.flops for problems in self.problems(batch, phase).values() for problem in problems)

    def bytes(self, batch: int, role: str) -> float:
        """Return the minimum bytes that a role reads and writes."""
        out = 4.0 * batch * size(self.output)
        if role.startswith("activation"):
            return out * (3 if role.endswith("gradient") else 2)
        return self.layer.bytes(self, batch, role)

    def data(self) -> dict[str, Any]:
        """Return the layer for an agent: all its fields, and what follows from its place."""
        return {
            **asdict(self.layer),
            "kind": self.layer.kind,
            "after": list(self.sources),
            "inputs": size(self.inputs[0]),
            "in": [list(shape) for shape in self.inputs],
            "out": list(self.output),
            "first": self.first,
            "parameters": {name: list(x.shape) for name, x in self.parameters.items()},
            "state": {name: list(x.shape) for name, x in self.state.items()},
        }


def size(shape: Shape) -> int:
    """Return how many numbers a sample of this shape has."""
    count = 1
    for length in shape:
        count *= length
    return count


def four(pads: Sequence[Any]) -> tuple[int, int, int, int]:
    """Return padding above, left, below, right; zeros if `pads` is empty. Raises ValueError."""
    if not pads:
        return 0, 0, 0, 0
    if len(pads) != 4 or any(type(x) is not int or x < 0 for x in pads):
        raise ValueError(f"pads {list(pads)}: four whole numbers, above, left, below, right")
    top, left, bottom, right = pads
    return top, left, bottom, right


def image(inputs: Sequence[Shape], what: str) -> Shape:
    """Return the shape of the only input: channels, rows and columns. Raises ValueError for no image."""
    if len(inputs[0]) != 3:
        raise ValueError(f"{what} takes images, channels × rows × columns, not {inputs[0]}")
    return inputs[0]
