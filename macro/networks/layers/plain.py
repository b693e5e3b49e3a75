"""Layers without parameters, GEMMs or convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from macro.networks.layer import Layer, Node, Shape, image, size


@dataclass(frozen=True, kw_only=True)
class Activation(Layer):
    """A layer that only applies its activation, for an input that is also used without it."""

    kind: ClassVar[str] = "activation"
    roles: ClassVar[tuple[str, ...]] = ("forward",)  # backward is a view, without a scope

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if self.activation == "none":
            raise ValueError("a layer of kind activation requires activation relu, sigmoid or tanh")
        return inputs[0]

    def bytes(self, node: Node, batch: int, role: str) -> float:
        return 0.0


@dataclass(frozen=True, kw_only=True)
class Add(Layer):
    """An element-wise sum of two layers' outputs, such as a residual block and its shortcut."""

    kind: ClassVar[str] = "add"
    inputs_least: ClassVar[int] = 2
    inputs_most: ClassVar[int] = 2

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if inputs[0] != inputs[1]:
            raise ValueError(f"inputs {inputs[0]} and {inputs[1]} must have the same shape")
        return inputs[0]

    def bytes(self, node: Node, batch: int, role: str) -> float:
        """Return the bytes of the forward pass; backward, both inputs take the output's gradient unchanged."""
        return super().bytes(node, batch, role) if role == "forward" else 0.0


@dataclass(frozen=True, kw_only=True)
class Concat(Layer):
    """A concatenation of two or more layers' outputs along channels, or features."""

    kind: ClassVar[str] = "concat"
    inputs_least: ClassVar[int] = 2
    inputs_most: ClassVar[int] = 99

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if len(inputs[0]) == 2:
            raise ValueError("sequences cannot be concatenated")
        if len({shape[1:] for shape in inputs}) > 1:
            raise ValueError(f"inputs {', '.join(map(str, inputs))} must have the same rows and columns")
        return (sum(shape[0] for shape in inputs), *inputs[0][1:])


@dataclass(frozen=True, kw_only=True)
class Dropout(Layer):
    """Dropout of a `share` of elements in training; the other elements are scaled by 1/(1 − share).

    Masks are given when answers are compared, and drawn when steps are timed. Srivastava and others, JMLR 15, 2014;
    scaled in training, as in libraries.
    """

    kind: ClassVar[str] = "dropout"

    share: float = 0.5

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if not 0 <= self.share < 1:
            raise ValueError(f"share {self.share:g}: must be 0 or more and below 1")
        return inputs[0]


@dataclass(frozen=True, kw_only=True)
class Flatten(Layer):
    """A view of an image as features, channel by channel, row by row; nothing is computed."""

    kind: ClassVar[str] = "flatten"

    def output(self, inputs: Sequence[Shape]) -> Shape:
        return (size(inputs[0]),)

    def bytes(self, node: Node, batch: int, role: str) -> float:
        return 0.0


@dataclass(frozen=True, kw_only=True)
class Shortcut(Layer):
    """A shortcut without parameters: every `stride`th row and column, padded with zero channels.

    `channels`: of its output. Option A of He, Zhang, Ren, Sun, CVPR 2016.
    """

    kind: ClassVar[str] = "shortcut"

    channels: int
    stride: int = 2

    def output(self, inputs: Sequence[Shape]) -> Shape:
        c, h, w = image(inputs, "a shortcut")
        if self.stride < 1:
            raise ValueError(f"stride {self.stride}: must be 1 or more")
        if self.channels < c:
            raise ValueError(f"channels {self.channels}: must be {c} or more, as many as the input has")
        return (self.channels, -(-h // self.stride), -(-w // self.stride))

    def bytes(self, node: Node, batch: int, role: str) -> float:
        """Return the bytes: sampled rows and columns are read, and the output or input gradient is written."""
        _, rows, columns = node.output
        taken, written = node.inputs[0][0] * rows * columns, node.output if role == "forward" else node.inputs[0]
        return 4.0 * batch * (taken + size(written))
