"""Contests of micro.conv --norm-and-pool: normalizations and poolings beside their convolutions."""

from __future__ import annotations

from kernels.catalog import find
from kernels.ops.conv.problem import Conv
from kernels.ops.norm.problem import Norm
from kernels.ops.pooling.problem import Pooling
from micro.planning.benchmark import Benchmark, Request
from micro.planning.contest import Contest
from micro.planning.conv_followed import NETS, PREFIX, layers
from micro.planning.conv_layers import Convolution

CONVOLUTIONS = ("torch", "im2col")  # the first available, unless a variant is requested
OURS = ("c", "c-ops")
KERNELS = {"torch": ("torch",)}  # kernels of the following layers, by the convolution's provider; else OURS
# Operations beside the layers, so that a command with their axes can repeat their cases.
BESIDE = (
    Benchmark(Norm, "Normalization.", sweep={"images": (128,), "maps": (16,), "size": (32,)}, questions={}),
    Benchmark(Pooling, "Pooling.", sweep={"images": (16,), "channels": (96,), "size": (55,)}, questions={}),
)
USUAL = ("resnet-56", "alexnet-s")


def contests(asked: Request) -> list[Contest]:
    """Build a contest per distinct layer: its convolution's passes, then its followers by each kernel."""
    if not asked.rows():
        return []
    batch = asked.axes["n"][0] if "n" in asked.given else None
    return [
        _contest(asked, name, layer, convolution)
        for convolution in _convolutions(asked)
        for name in (NETS if "all" in asked.flags else USUAL)
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
