"""Contests of micro.conv --norm-and-pool: normalizations and poolings beside their convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kernels.catalog import find
from kernels.ops.conv.problem import Conv
from kernels.ops.norm.problem import Norm
from kernels.ops.pooling.problem import Pooling
from kernels.problem import Problem
from micro.planning import conv_layers
from micro.planning.benchmark import Benchmark, Request
from micro.planning.contest import Contest
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


CONVOLUTIONS = ("torch", "im2col")  # the first available, unless a variant is requested
OURS = ("c", "c-ops")
KERNELS = {"torch": ("torch",)}  # kernels of the following layers, by the convolution's provider; else OURS
# Operations beside the layers, so that a command with their axes can repeat their cases.
BESIDE = (
    Benchmark(Norm, "Normalization.", sweep={"images": (128,), "maps": (16,), "size": (32,)}),
    Benchmark(Pooling, "Pooling.", sweep={"images": (16,), "channels": (96,), "size": (55,)}),
)
USUAL = ("resnet-56", "alexnet-s")


def contests(asked: Request) -> list[Contest]:
    """Build a contest per distinct layer: its convolution's passes, then its followers by each kernel."""
    if not asked.rows():
        return []
    batch = asked.named("n", (None,))[0]
    return [
        _contest(asked, name, layer, convolution)
        for convolution in _convolutions(asked)
        for name in (NETS if asked.every else USUAL)
        for layer in layers(name, batch)
    ]


def _convolutions(asked: Request) -> tuple[str, ...]:
    """Return the requested variants; else the first available of CONVOLUTIONS."""
    if "variant" in asked.given:
        return asked.variants
    some = layers(USUAL[0])[0].problem
    here = [name for name in CONVOLUTIONS if asked.case(some, name).skip is None]
    return (*here, CONVOLUTIONS[-1])[:1]


def _contest(asked: Request, name: str, layer: Convolution, convolution: str) -> Contest:
    passes = tuple(asked.case(problem, convolution) for problem in layer.passes())
    after = tuple(
        asked.case(problem, kernel)
        for word, problem in NETS[name].after(layer)
        for kernel in _kernels(asked, convolution)
        if word == "train" or kernel != "c-ops"
    )
    question = f"what do normalization and pooling cost {NETS[name].title}, beside its convolutions?"
    title = f"{PREFIX}/{name}/layer:{layer.name}/variant:{convolution}"
    return Contest(title, question, "work: differs (layer)", (*passes, *after))


def _kernels(asked: Request, convolution: str) -> tuple[str, ...]:
    """Return the kernels of the convolution's library, else the suite's; all without `--variant`."""
    if "variant" not in asked.given:
        return (*KERNELS["torch"], *OURS)
    return KERNELS.get(find(Conv.op, convolution).provider, OURS)
