"""Normalizations and poolings that follow each convolution of a network, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kernels.ops.norm.problem import Norm
from kernels.ops.pooling.problem import Pooling
from kernels.problem import Problem
from micro.planning import conv_layers
from micro.planning.conv_layers import Convolution

PREFIX = "norm-and-pool"  # of the names of contests over these layers
WINDOW = 3  # of the poolings of these networks, two apart


@dataclass(frozen=True)
class Followed:
    """Layers that follow the convolutions of a network of micro/shapes.

    A batch normalization after every layer (`norms` is empty), or a local response normalization after the layers in
    `norms`; a max-pooling after those in `pooled`, of images of so many rows, zeros around them included. `title`:
    the network's name in a sentence."""

    title: str
    norms: tuple[str, ...] = ()
    pooled: Mapping[str, int] = field(default_factory=dict)

    def after(self, layer: Convolution) -> Iterator[tuple[str, Problem]]:
        """Yield what follows a layer, with its word: train or frozen (batch normalization), lrn, pool."""
        conv = layer.problem
        edge = conv.lines[0].outputs
        if not self.norms:
            for mode in ("train", "frozen"):
                yield mode, Norm(conv.n, conv.k, edge, mode=mode, phase="step")
        if layer.name in self.norms:
            yield "lrn", Norm(conv.n, conv.k, edge, "lrn", phase="step")
        if layer.name in self.pooled:
            yield "pool", Pooling(conv.n, conv.k, self.pooled[layer.name], WINDOW, phase="step")


# AlexNet-S as in the original, whose normalizations its text leaves out (Krizhevsky, Sutskever and Hinton 2012, 3.5).
NETS = {
    "resnet-56": Followed("ResNet-56"),
    "alexnet-s": Followed("AlexNet-S", ("conv1", "conv2"), {"conv1": 55, "conv2": 27, "conv5": 13}),
    "resnet-50": Followed("ResNet-50", pooled={"conv1": 112 + 1}),  # a row of zeros above, one to the left
}


def layers(name: str, batch: int | None = None) -> tuple[Convolution, ...]:
    """Return every distinct convolution of a network, at the network's batch unless one is given."""
    net = conv_layers.read(name)
    return tuple(replace(x, problem=replace(x.problem, n=batch or net.batch)) for x in net.layers)
