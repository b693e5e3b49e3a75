"""Networks of convolutions with what stands between them: each distinct layer, how often, and what follows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernels.ops.conv.problem import Conv
from kernels.ops.norm.problem import Norm
from kernels.ops.pooling.problem import Pooling
from kernels.problem import Problem

PREFIX = "norm-and-pool"  # of the names of contests over these layers
WINDOW = 3  # of the poolings of these networks, two apart


@dataclass(frozen=True)
class Layer:
    """A convolution that a network has `count` times, and what follows each of them: a batch or a local response
    normalization of its result, or none; a max-pooling of images of `pooled` rows, zeros around them included, or none.
    `first`: nobody needs the gradient of its image."""

    name: str
    conv: Conv
    count: int = 1
    norm: str = "batch"
    pooled: int = 0
    first: bool = False

    def convolutions(self, batch: int) -> tuple[Conv, ...]:
        """The passes of a step."""
        passes = ("forward", "wgrad") if self.first else ("forward", "dgrad", "wgrad")
        return tuple(replace(self.conv, n=batch, direction=each) for each in passes)

    def after(self, batch: int) -> Iterator[tuple[str, Problem]]:
        """What follows, forward and backward: train or frozen (a batch normalization's mode), lrn, pool."""
        edge = self.conv.lines[0].outputs
        if self.norm == "lrn":
            yield "lrn", Norm(batch, self.conv.k, edge, "lrn", phase="step")
        if self.norm == "batch":
            for mode in ("train", "frozen"):
                yield mode, Norm(batch, self.conv.k, edge, mode=mode, phase="step")
        if self.pooled:
            yield "pool", Pooling(batch, self.conv.k, self.pooled, WINDOW, phase="step")


@dataclass(frozen=True)
class Net:
    """Every distinct convolution of a network. `title`: its name in a sentence."""

    title: str
    batch: int
    layers: tuple[Layer, ...]


def _square(c: int, size: int, k: int, edge: int, stride: int, pad: int) -> Conv:
    return Conv(1, c, size, size, k, edge, edge, stride, pad)


def _resnet(*rows: tuple[int, int, int, int, int, int, int]) -> tuple[Layer, ...]:
    """From rows of count, channels, edge of the image, filters, their edge, stride, padding; a batch normalization
    after each."""
    return tuple(
        Layer(f"{edge}x{edge}-{c}-{k}-{size}-{stride}", _square(c, size, k, edge, stride, pad), count, first=c == 3)
        for count, c, size, k, edge, stride, pad in rows
    )


# arXiv 1608.07249 and its repository; AlexNet-S as in the original, whose normalizations the text leaves out
# (Krizhevsky, Sutskever and Hinton 2012, section 3.5). ResNet-50 with the stride on the 3×3.
ALEXNET_S = (
    Layer("conv1", _square(3, 224, 96, 11, 4, 2), norm="lrn", pooled=55, first=True),
    Layer("conv2", _square(96, 27, 256, 5, 1, 2), norm="lrn", pooled=27),
    Layer("conv3", _square(256, 13, 384, 3, 1, 1), norm=""),
    Layer("conv4", _square(384, 13, 384, 3, 1, 1), norm=""),
    Layer("conv5", _square(384, 13, 256, 3, 1, 1), norm="", pooled=13),
)
RESNET_56 = _resnet(
    (1, 3, 32, 16, 3, 1, 1),
    (18, 16, 32, 16, 3, 1, 1),
    (1, 16, 32, 32, 3, 2, 1),
    (17, 32, 16, 32, 3, 1, 1),
    (1, 32, 16, 64, 3, 2, 1),
    (17, 64, 8, 64, 3, 1, 1),
)
RESNET_50 = (
    Layer("conv1", _square(3, 224, 64, 7, 2, 3), pooled=112 + 1, first=True),  # a row of zeros above, one to the left
    *_resnet(
        (1, 64, 56, 64, 1, 1, 0),
        (3, 64, 56, 64, 3, 1, 1),
        (4, 64, 56, 256, 1, 1, 0),
        (2, 256, 56, 64, 1, 1, 0),
        (1, 256, 56, 128, 1, 1, 0),
        (1, 128, 56, 128, 3, 2, 1),
        (4, 128, 28, 512, 1, 1, 0),
        (1, 256, 56, 512, 1, 2, 0),
        (3, 512, 28, 128, 1, 1, 0),
        (3, 128, 28, 128, 3, 1, 1),
        (1, 512, 28, 256, 1, 1, 0),
        (1, 256, 28, 256, 3, 2, 1),
        (6, 256, 14, 1024, 1, 1, 0),
        (1, 512, 28, 1024, 1, 2, 0),
        (5, 1024, 14, 256, 1, 1, 0),
        (5, 256, 14, 256, 3, 1, 1),
        (1, 1024, 14, 512, 1, 1, 0),
        (1, 512, 14, 512, 3, 2, 1),
        (3, 512, 7, 2048, 1, 1, 0),
        (1, 1024, 14, 2048, 1, 2, 0),
        (2, 2048, 7, 512, 1, 1, 0),
        (2, 512, 7, 512, 3, 1, 1),
    ),
)
NETS = {
    "resnet-56": Net("ResNet-56", 128, RESNET_56),
    "alexnet-s": Net("AlexNet-S", 16, ALEXNET_S),
    "resnet-50": Net("ResNet-50", 16, RESNET_50),
}
