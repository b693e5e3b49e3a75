"""Convolution of images by a filter bank, and its two gradients."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from kernels import bounds
from kernels.lazy import np
from kernels.ops.conv import excerpts, projected, truth
from kernels.ops.conv.shape import Shape
from kernels.problem import GRADED, Array, Arrays, Evidence, Excerpt

NONZERO = 0.01  # share of a sparse probe's elements that are not idle
DEAR = 10e9  # FLOPs: above it a float64 reference costs more than the measurement
FEW = 16  # output channels: with fewer, the answer is compared in full, not by projections


@dataclass(frozen=True)
class Conv(Shape):
    """y = x ⋆ w, cross-correlation as in all frameworks, with zeros around x.

    x N×C×H×W, w K×C/groups×R×S, y N×K×OH×OW.

    Pass forward: y from x and w. dgrad: dx from dy and w. wgrad: dw from x and dy. Layout nhwc has the channels last,
    of the filter too (K×R×S×C); nchw16c has blocks of 16 channels last (N×C/16×H×W×16, the filter
    K/16×C/16×R×S×16c×16k).

    FLOPs are nominal: 2·N·K·OH·OW·C/groups·R·S in each pass, multiplications by the zeros around x among them. NaN
    and infinity are not checked, because correct algorithms that transform spread them over an image."""

    probes: ClassVar[tuple[str, ...]] = ("dense", "sparse")

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        """Return inputs; few terms of a sum count in a sparse probe, so that no precision loss averages out.

        The other terms are small, not zero, so that a kernel cannot recognize the probe by its zeros."""
        x = super().fill(rng, probe)
        if probe == "sparse":
            first = next(iter(x))
            idle = rng.random(x[first].shape) >= NONZERO
            x[first] = np.where(idle, x[first] * np.float32(bounds.IDLE**2), x[first])
        return x

    def reference(self, x: Arrays) -> dict[str, Array]:
        name = self.outputs[0].name
        first, second = (array.astype(np.float64) for array in self.inputs(x))
        return {name: self.laid(truth.output(self, first, second), name)}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Return the bound for dense data of mean zero, whose rounding errors average out like the terms."""
        name = self.outputs[0].name
        return {name: self.laid(truth.of_factors(u, "dense") * truth.of_sums(self, "dense", *self.inputs(x)), name)}

    def compare(self, x: Arrays, got: Arrays, u: float, probe: str) -> list[Evidence]:
        channels = self.k if self.direction == "forward" else self.c
        if self.flops > DEAR and self.groups == 1 and channels >= FEW:
            return projected.compare(self, x, got, u, probe)
        return [truth.in_full(self, x, got, u, probe)]

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        return Excerpt(*excerpts.part(self, rng))


class Spread(Conv):
    """The same convolution for kernels whose transforms of images or tiles spread errors over a plane.

    An element's error depends on the other elements of its plane, so that a bound of the element's terms alone fails
    where other elements are far larger."""

    planes: ClassVar[tuple[str, ...]] = ("sparse", GRADED)


def spread(problem: Conv) -> Conv:
    """Return the problem as `Spread`, with bounds for kernels that transform images or tiles."""
    return Spread(**{x.name: getattr(problem, x.name) for x in fields(problem)})
