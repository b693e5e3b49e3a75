"""Fully connected layers and convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from kernels.errors import UsageError
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES, SIDES
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Problem
from macro.networks.layer import Layer, Node, Parameter, Shape, four, image, size


@dataclass(frozen=True, kw_only=True)
class Dense(Layer):
    """Fully connected layer y = x·W + b, with x batch × inputs and W inputs × outputs; of a sequence, in each step."""

    kind: ClassVar[str] = "dense"
    roles: ClassVar[tuple[str, ...]] = ("forward", "dgrad", "wgrad", "bias gradient", "update")

    outputs: int
    tied: str = ""  # an earlier dense layer or embedding, whose weights, transposed, are this layer's

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if len(inputs[0]) > 2:
            raise ValueError(f"a dense layer requires features, not an image {inputs[0]}: add a flatten layer")
        return (*inputs[0][:-1], self.outputs)

    def parameters(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        wide, bias = inputs[0][-1], {"bias": Parameter((self.outputs,))}
        return bias if self.tied else {"weight": Parameter((wide, self.outputs), wide), **bias}

    def problems(self, node: Node, batch: int) -> Mapping[str, tuple[Problem, ...]]:
        """Return the GEMMs by role, with W stored inputs × outputs, or outputs × inputs if it is another layer's."""
        *steps, inputs = node.inputs[0]
        rows = batch * size(steps)
        if self.tied:
            return {
                "forward": (Gemm(rows, self.outputs, inputs, "nt"),),
                "dgrad": (Gemm(rows, inputs, self.outputs, "nn"),),
                "wgrad": (Gemm(self.outputs, inputs, rows, "tn"),),
            }
        return {
            "forward": (Gemm(rows, self.outputs, inputs, "nn"),),
            "dgrad": (Gemm(rows, inputs, self.outputs, "nt"),),
            "wgrad": (Gemm(inputs, self.outputs, rows, "tn"),),
        }

    def bytes(self, node: Node, batch: int, role: str) -> float:
        return weighted(node, batch, role)


def weighted(node: Node, batch: int, role: str) -> float:
    """Return the bytes of a role beside its GEMM or convolution, for a layer with an optional bias."""
    out, inputs = 4.0 * batch * size(node.output), 4.0 * batch * size(node.inputs[0])
    added = 2 * out if "bias" in node.parameters else 0.0
    return {"forward": added, "dgrad": inputs, "bias gradient": out}.get(role, 4.0 * node.count)


@dataclass(frozen=True, kw_only=True)
class Convolution(Layer):
    """A convolution of images by square filters (cross-correlation): x N×C×H×W, w K×C/groups×R×S."""

    kind: ClassVar[str] = "conv"
    roles: ClassVar[tuple[str, ...]] = ("forward", "dgrad", "wgrad", "bias gradient", "update")

    filters: int
    kernel: int = 3  # rows and columns of a filter
    stride: int = 1
    pad: int = 0  # zeros on all sides
    pads: tuple[int, ...] = ()  # in place of `pad`: above, left, below, right
    groups: int = 1
    dilation: int = 1
    bias: bool = True  # whether each filter has a bias

    def problem(self, given: Shape, batch: int) -> Conv:
        """Return the problem of the forward pass. Raises ValueError for sizes that do not fit."""
        c, h, w = given
        if self.pads and self.pad:
            raise ValueError("give either pad or pads, not both")
        sides: dict[str, Any] = dict(zip(SIDES, four(self.pads), strict=True)) if self.pads else {"pad": self.pad}
        try:
            return Conv(
                n=batch,
                c=c,
                h=h,
                w=w,
                k=self.filters,
                r=self.kernel,
                s=self.kernel,
                stride=self.stride,
                groups=self.groups,
                dilation=self.dilation,
                **sides,
            )
        except UsageError as error:
            raise ValueError(str(error)) from None

    def output(self, inputs: Sequence[Shape]) -> Shape:
        p = self.problem(image(inputs, "a convolution"), 1)
        return (p.k, *(line.outputs for line in p.lines))

    def parameters(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        shape = (self.filters, inputs[0][0] // self.groups, self.kernel, self.kernel)
        weight = Parameter(shape, shape[1] * self.kernel**2)
        return {"weight": weight, "bias": Parameter((self.filters,))} if self.bias else {"weight": weight}

    def problems(self, node: Node, batch: int) -> Mapping[str, tuple[Problem, ...]]:
        problem = self.problem(node.inputs[0], batch)
        return {direction: (replace(problem, direction=direction),) for direction in PASSES}

    def bytes(self, node: Node, batch: int, role: str) -> float:
        return weighted(node, batch, role)
