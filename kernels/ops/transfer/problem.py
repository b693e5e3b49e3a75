"""Copies from one memory to another, of one buffer or of a buffer for each layer of a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from kernels import moved
from kernels.errors import UsageError
from kernels.lazy import np
from kernels.moved import LENGTH
from kernels.problem import Array, Arrays, Excerpt, axis


@dataclass(frozen=True)
class Gradient:
    """Sizes of a network's gradient, in elements by layer: weights with bias; a normalization is a layer."""

    title: str
    layers: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return LENGTH * sum(self.layers)


def _resnet_50() -> tuple[int, ...]:
    """Return ResNet-50's parameters by layer: a 7×7 convolution, four stages of bottlenecks, a product.

    Each convolution is followed by a normalization (He et al. 2015, arXiv:1512.03385).
    """
    layers, channels = [3 * 64 * 49, 2 * 64], 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            layers += [channels * width, 2 * width, 9 * width * width, 2 * width, 4 * width * width, 8 * width]
            if block == 0:  # the projection shortcut
                layers += [4 * channels * width, 8 * width]
            channels = 4 * width
    return (*layers, 2048 * 1000 + 1000)


def _resnet_56() -> tuple[int, ...]:
    """Return CIFAR-10 ResNet-56's parameters by layer: three stages of nine blocks of two convolutions.

    Shortcuts have no parameters.
    """
    layers, channels = [9 * 3 * 16, 2 * 16], 16
    for width in (16, 32, 64):
        for _ in range(18):
            layers += [9 * channels * width, 2 * width]
            channels = width
    return (*layers, 64 * 10 + 10)


# From Shi et al. 2017, arXiv:1608.07249 v7; Karmanov's from DeepLearningFrameworks
GRADIENTS: Mapping[str, Gradient] = {
    "fcn-s": Gradient("FCN-S", (54_790_144, 4_196_352, 4_196_352, 54_814_848)),
    "alexnet-s": Gradient(
        "AlexNet-S", (34_944, 614_656, 885_120, 1_327_488, 884_992, 37_752_832, 16_781_312, 4_097_000)
    ),
    "resnet-50": Gradient("ResNet-50", _resnet_50()),
    "fcn-r": Gradient("FCN-R", (1_607_680, 8_392_704, 4_195_328, 10_250)),
    "lstm": Gradient("LSTM", (2_560_000, 525_312, 525_312, 2_570_000)),
    "karmanov-cnn": Gradient("Karmanov's CNN", (1_400, 22_550, 45_100, 90_100, 3_277_312, 5_130)),
    "resnet-56": Gradient("ResNet-56", _resnet_56()),
    "alexnet-r": Gradient("AlexNet-R", (2_432, 25_632, 51_264, 5_770)),
}


SINGLE, HUNDRED = "one", "hundred"
PIECES = 100  # number of buffers of HUNDRED
USUAL = 1 << 20  # bytes by default


@dataclass(frozen=True)
class Transfer(moved.Moved):
    """Copy y = x, each buffer by a separate call. Raises UsageError for a size that is not the gradient's."""

    op: ClassVar[str] = "transfer"

    size: int = axis("total bytes; 0: the gradient's size of --buffers, else 1 MiB", low=LENGTH, shown="bytes")
    buffers: str = axis(
        "one buffer, a hundred equal ones, or one per layer of a network",
        SINGLE,
        choices=(SINGLE, HUNDRED, *GRADIENTS),
        shown="word",
    )
    waits: str = axis("when to wait for the other process's reply", "once", choices=("once", "each"))
    back: str = axis(
        "when the other process sends back: after receiving all, or meanwhile", "after", choices=("after", "along")
    )

    clock: str = axis(
        "the device's clock, or the caller's until the end of each copy", "device", choices=("device", "caller")
    )

    def __post_init__(self) -> None:
        nbytes = GRADIENTS[self.buffers].nbytes if self.buffers in GRADIENTS else 0
        grain = LENGTH * (PIECES if self.buffers == HUNDRED else 1)
        if self.size == 0:
            object.__setattr__(self, "size", nbytes or USUAL // grain * grain)
        super().__post_init__()
        if self.size % grain:
            raise UsageError(f"--size {self.size}: must be a multiple of {grain}")
        if nbytes and self.size != nbytes:
            named = f"--size {self.size}: the gradient of --buffers {self.buffers}"
            raise UsageError(f"{named} has {nbytes} bytes; leave one of the two out")

    @property
    def on_host(self) -> bool:
        return self.clock == "caller"

    @property
    def lengths(self) -> tuple[int, ...]:
        """Elements of each buffer; the buffers are contiguous."""
        if self.buffers == HUNDRED:
            return (self.count // PIECES,) * PIECES
        return (self.count,) if self.buffers == SINGLE else GRADIENTS[self.buffers].layers

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        return moved.some(self, rng, self.count, buffers=SINGLE)

    def reference(self, x: Arrays) -> dict[str, Array]:
        return {"y": x["x"].astype("f8")}
