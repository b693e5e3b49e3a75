"""Batch normalization by channel, training or frozen, and local response normalization across channels; with their
gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from kernels import places
from kernels.directions import direction
from kernels.errors import UsageError
from kernels.ops.norm import truth
from kernels.problem import Excerpt, Operand, Problem, axis

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array, Arrays

LIMIT = 32.0  # unit roundoffs
KEPT = 2  # channels after which the kept statistics come again: an excerpt of so many has the right ones
OPERATIONS = {  # of an element, forward and of its gradient
    ("batch", "train"): (6.0, 9.0),  # its share of mean and variance, 4, its normalization, 2; two sums, 4, gradient, 5
    ("batch", "frozen"): (2.0, 5.0),  # two sums, 4, and a product
    ("lrn", "train"): (9.0, 12.0),  # square, sum and roots; the same of the quotients that neighbors add
}


@dataclass(frozen=True)
class Norm(Problem):
    """batch: y = scale · (x − mean)/√(variance + ε) + shift of each channel. train: mean and variance are those of the
    batch; mean and rstd = 1/√(variance + ε), which the gradient needs, are written beside y, as PyTorch and cuDNN do.
    frozen: they were kept from earlier. lrn: y = x / (2 + α/5 · Σ x² of five neighboring channels)^¾. NCHW.

    A step adds the gradients from dy, that of y: dx, and of a batch normalization dscale and dshift. As in a network
    all of y is there before any of them is begun. In training dx goes through mean and variance too."""

    op: ClassVar[str] = "norm"

    images: int = axis("images of the batch", low=1)
    maps: int = axis("feature maps: channels", low=1)
    size: int = axis("edge of an image", low=1)
    method: str = axis("which normalization", "batch", choices=("batch", "lrn"))
    mode: str = axis("statistics of the batch, or kept ones", "train", choices=("train", "frozen"))
    phase: str = direction("forward, or forward and gradients", "forward", "step")

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.method, self.mode) == ("lrn", "frozen"):
            raise UsageError("--mode frozen: a local response normalization keeps no statistics")

    @property
    def keeps(self) -> bool:
        """Whether the statistics are an answer."""
        return (self.method, self.mode) == ("batch", "train")

    @property
    def step(self) -> bool:
        """Whether its gradients are asked for too."""
        return self.phase == "step"

    @property
    def channels(self) -> int:
        return self.maps

    @property
    def count(self) -> int:
        return self.images * self.maps * self.size**2

    @property
    def flops(self) -> float:
        forward, gradient = OPERATIONS[self.method, self.mode]
        return (forward + gradient * self.step) * self.count

    @property
    def bytes(self) -> float:
        return float(self.footprint)

    @property
    def summed(self) -> int:
        return self.images * self.size**2

    def operands(self) -> tuple[Operand, ...]:
        shape, row = (self.images, self.channels, self.size**2), (1, self.channels)
        step, gained = self.step, self.method == "batch"
        gain = (Operand("scale", row, "in"), Operand("shift", row, "in")) if gained else ()
        given = (Operand("dy", shape, "in"),) if step else ()
        kept = (Operand("mean", row[1:], "out"), Operand("rstd", row[1:], "out")) if self.keeps else ()
        gradients = (Operand("dx", shape, "out"),) if step else ()
        of_gain = (Operand("dscale", row[1:], "out"), Operand("dshift", row[1:], "out")) if step and gained else ()
        return (Operand("x", shape, "in"), *gain, *given, Operand("y", shape, "out"), *kept, *gradients, *of_gain)

    def kept(self) -> tuple[Array, Array]:
        """Mean and variance of each channel from earlier, float32: of the problem, not drawn."""
        import numpy as np

        place = np.arange(self.channels, dtype=np.float32) % KEPT
        return np.asarray(np.sin(place) / 4, "f4"), np.asarray(1 + np.cos(place) / 2, "f4")

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        """Some channels where a sum is of a channel of all images, else some images."""
        images, maps, pixels = places.every((self.images, self.maps, self.size**2))
        if self.keeps:
            maps = places.rows(rng, self.maps, self.images * self.size**2)
        elif self.method == "batch" and self.step:
            maps = places.blocks(rng, self.maps, KEPT, KEPT)
        else:
            images = places.rows(rng, self.images, self.maps * self.size**2)
        shapes = {3: (images, maps, pixels), 2: (*places.every((1,)), maps), 1: (maps,)}
        part = replace(self, images=len(images), maps=len(maps))
        return Excerpt(part, {x.name: shapes[len(x.shape)] for x in self.operands()})

    def reference(self, x: Arrays) -> dict[str, Array]:
        if self.method == "lrn":
            return truth.local(x, self.step)
        return truth.batch(x, None if self.keeps else self.kept(), self.step)

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        if self.method == "lrn":
            units = truth.local_bound(x, want, self.step)
        else:
            units = truth.batch_bound(x, None if self.keeps else self.kept(), self.step)
        return {name: LIMIT * u * array for name, array in units.items()}
