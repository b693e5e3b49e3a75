"""A layer of a network: what all kinds have in common. One file of macro/networks/layers is one kind."""

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
    """An array that steps move. `terms`: of the sums that it is a factor in, by which normal numbers are scaled;
    0 for what is small and added, and `base`, around which it lies."""

    shape: Shape
    terms: int = 0
    base: float = 0.0

    @property
    def count(self) -> int:
        """How many numbers it has."""
        return size(self.shape)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """`after`: the layers whose outputs it takes, `input` for the data; without any the one before it. `activation`: of
    its output."""

    kind: ClassVar[str] = ""
    roles: ClassVar[tuple[str, ...]] = ("forward", "gradient")  # what a step does for it, but for its activation
    inputs_least: ClassVar[int] = 1
    inputs_most: ClassVar[int] = 1

    name: str
    after: tuple[str, ...] = ()
    activation: str = "none"

    def output(self, inputs: Sequence[Shape]) -> Shape:
        """Of what it gives. Raises ValueError for inputs that it cannot take."""
        return inputs[0]

    def parameters(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        """By name."""
        return {}

    def state(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        """What is kept between steps and moved by no gradient, by name."""
        return {}

    def problems(self, node: Node, batch: int) -> Mapping[str, tuple[Problem, ...]]:
        """Products and convolutions by role, as micro measures them."""
        return {}

    def bytes(self, node: Node, batch: int, role: str) -> float:
        """What a role reads and writes at least, beside what its problems do."""
        return 4.0 * batch * (sum(map(size, node.inputs)) + size(node.output))

    def data(self) -> dict[str, Any]:
        """For a file, or a worker: fields that are not as by default."""
        plain = {x.name: x.default for x in fields(self)}
        changed = {name: value for name, value in asdict(self).items() if value != plain[name]}
        return {"name": changed.pop("name"), "kind": self.kind, **changed}


@dataclass(frozen=True)
class Node:
    """A layer in its place in a network. `sources`: whose outputs it takes; `first`: nobody needs the gradient of its
    inputs."""

    layer: Layer
    sources: tuple[str, ...]
    inputs: tuple[Shape, ...]
    output: Shape
    first: bool

    @property
    def name(self) -> str:
        """Of the layer."""
        return self.layer.name

    @property
    def activation(self) -> str:
        """Of its output."""
        return self.layer.activation

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """By name."""
        return self.layer.parameters(self.inputs)

    @cached_property
    def state(self) -> Mapping[str, Parameter]:
        """By name."""
        return self.layer.state(self.inputs)

    @property
    def count(self) -> int:
        """Numbers that steps move."""
        return sum(x.count for x in self.parameters.values())

    @property
    def roles(self) -> tuple[str, ...]:
        """What a step does for it, in order."""
        acts = ("activation", "activation gradient") if self.activation != "none" else ()
        none = not self.parameters
        without = {"dgrad": self.first, "bias gradient": "bias" not in self.parameters, "update": none}
        without["gradient"] = without["activation gradient"] = self.first and none  # nothing before it is moved
        kept = [role for role in self.layer.roles if not without.get(role)]
        forward, rest = [x for x in kept if x == "forward"], [x for x in kept if x != "forward"]
        return tuple(role for role in (*forward, *acts, *rest) if not without.get(role))

    def problems(self, batch: int, phase: str = "step") -> Mapping[str, tuple[Problem, ...]]:
        """Products and convolutions by role."""
        wanted = ("forward",) if phase == "forward" else self.roles
        return {role: x for role, x in self.layer.problems(self, batch).items() if role in wanted}

    def flops(self, batch: int, phase: str) -> float:
        """Of those."""
        return sum(problem.flops for problems in self.problems(batch, phase).values() for problem in problems)

    def bytes(self, batch: int, role: str) -> float:
        """Read and written at least."""
        out = 4.0 * batch * size(self.output)
        if role.startswith("activation"):
            return out * (3 if role.endswith("gradient") else 2)
        return self.layer.bytes(self, batch, role)

    def data(self) -> dict[str, Any]:
        """For a worker: all fields of the layer, and what its place makes of it."""
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
    """How many numbers a sample of this shape has."""
    count = 1
    for length in shape:
        count *= length
    return count


def four(pads: Sequence[Any]) -> tuple[int, int, int, int]:
    """Above, left, below, right; zeros without any. Raises ValueError for anything else."""
    if not pads:
        return 0, 0, 0, 0
    if len(pads) != 4 or any(type(x) is not int or x < 0 for x in pads):
        raise ValueError(f"pads {list(pads)}: four whole numbers, above, left, below, right")
    top, left, bottom, right = pads
    return top, left, bottom, right


def image(inputs: Sequence[Shape], what: str) -> Shape:
    """The one input, channels, rows and columns. Raises ValueError for another."""
    if len(inputs[0]) != 3:
        raise ValueError(f"{what} takes images, channels × rows × columns, not {inputs[0]}")
    return inputs[0]
