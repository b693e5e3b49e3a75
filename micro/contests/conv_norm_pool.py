"""The contests of micro.conv --norm-and-pool: what a network's normalizations and poolings take, forward and backward,
beside the three passes of the convolution that they follow."""

from __future__ import annotations

from kernels.catalog import find
from kernels.ops.conv.problem import Conv
from kernels.ops.norm.problem import Norm
from kernels.ops.pooling.problem import Pooling
from micro.planning.benchmark import Benchmark, Request
from micro.planning.contest import Contest
from micro.planning.conv_followed import NETS, PREFIX, Layer

CONVOLUTIONS = ("torch", "im2col")  # the first that is here, unless a person names one
KERNELS = {  # of what follows a convolution, by whose kernel convolves; of a batch normalization by its mode too
    "torch": {"train": ("torch",), "frozen": ("torch",), "lrn": ("torch",), "pool": ("torch",)},
    "suite": {"train": ("c", "c-ops"), "frozen": ("c",), "lrn": ("c",), "pool": ("c",)},
}
# Of other operations, beside the layers: a case of theirs is repeated by a line with their axes.
BESIDE = (
    Benchmark(Norm, "Normalization.", sweep={"images": (128,), "maps": (16,), "size": (32,)}, questions={}),
    Benchmark(Pooling, "Pooling.", sweep={"images": (16,), "channels": (96,), "size": (55,)}, questions={}),
)
USUAL = ("resnet-56", "alexnet-s")


def contests(asked: Request) -> list[Contest]:
    """One for each distinct layer: its convolution's passes, then what follows it, by each kernel."""
    if not asked.rows():
        return []
    return [
        _contest(asked, name, layer, convolution)
        for convolution in _convolutions(asked)
        for name in (NETS if "all" in asked.flags else USUAL)
        for layer in NETS[name].layers
    ]


def _convolutions(asked: Request) -> tuple[str, ...]:
    """Those that are named; else the first that is here."""
    if "variant" in asked.given:
        return asked.variants
    some = NETS["resnet-56"].layers[0].convolutions(1)[0]
    here = [name for name in CONVOLUTIONS if asked.case(some, name).skip is None]
    return (*here, CONVOLUTIONS[-1])[:1]


def _contest(asked: Request, name: str, layer: Layer, convolution: str) -> Contest:
    net = NETS[name]
    batch = asked.axes["n"][0] if "n" in asked.given else net.batch
    passes = tuple(asked.case(problem, convolution) for problem in layer.convolutions(batch))
    after = tuple(
        asked.case(problem, kernel)
        for word, problem in layer.after(batch)
        for kernel in dict.fromkeys(kernel for kernels in _kernels(asked, convolution) for kernel in kernels[word])
    )
    question = f"what do normalization and pooling cost {net.title}, beside its convolutions?"
    title = f"{PREFIX}/{name}/{layer.name}/variant:{convolution}"
    return Contest(title, question, "work: differs (layer)", (*passes, *after))


def _kernels(asked: Request, convolution: str) -> list[dict[str, tuple[str, ...]]]:
    """Those of whoever convolves, the suite's own for libraries that have none; all of them where nobody is named."""
    if "variant" not in asked.given:
        return list(KERNELS.values())
    return [KERNELS.get(find(Conv.op, convolution).provider, KERNELS["suite"])]
