"""Residual networks (He, Zhang, Ren, Sun, CVPR 2016) of arXiv 1608.07249: ResNet-50 and ResNet-56.

ResNet-50 has stages of 3, 4, 6 and 3 bottlenecks on images of 224 × 224. In a stage's first block, the stride is in the
3 × 3 convolution (Torch, CNTK, MXNet) or in the 1 × 1 convolution before it (Caffe, TensorFlow).

ResNet-56, for CIFAR-10, has three stages of nine blocks of two 3 × 3 convolutions, batch normalization after each
convolution, and shortcuts without parameters. TensorFlow's script has no biases in its convolutions; Torch's and
MXNet's have biases, and no ReLU after their sums. Caffe's has projections as shortcuts, no scales and a pooling of
2 × 2; CNTK's has eighteen blocks a stage, and so is ResNet-110.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from macro.networks.base import Network, by_name
from macro.networks.layer import Layer
from macro.networks.layers import Add, BatchNorm, Convolution, Dense, Flatten, Pool, Shortcut

SOURCE = "arXiv 1608.07249, ResNet-"
BOTTLENECKS = ((64, 3), (128, 4), (256, 6), (512, 3))  # inner channels and blocks of the stages
WIDER = 4  # times as many channels at a block's output as inside
CHANNELS = (16, 32, 64)  # in the stages of ResNet-56


def normed(
    name: str,
    norm: str,
    filters: int,
    kernel: int,
    stride: int = 1,
    after: tuple[str, ...] = (),
    activation: str = "none",
    bias: bool = False,
    affine: bool = True,
) -> list[Layer]:
    """Return a convolution and its batch normalization, followed by the activation."""
    pad = kernel // 2
    conv = Convolution(name=name, after=after, filters=filters, kernel=kernel, stride=stride, pad=pad, bias=bias)
    return [conv, BatchNorm(name=norm, affine=affine, activation=activation)]


def staged(
    stages: Sequence[tuple[int, int]], first: int, before: str, block: Callable[[str, str, int, int], list[Layer]]
) -> list[Layer]:
    """Return the blocks of all stages, numbered from `first`; later stages begin with a block of stride 2."""
    stack = list[Layer]()
    for stage, (channels, blocks) in enumerate(stages, first):
        for number in range(blocks):
            name, stride = f"stage{stage}.{number}", 2 if stage > first and number == 0 else 1
            stack += block(name, before, channels, stride)
            before = f"{name}.add"
    return stack


def bottlenecks(reduced: bool = False) -> tuple[Layer, ...]:
    """Return the layers of ResNet-50; `reduced`: stride in a block's first 1 × 1, not in its 3 × 3."""

    def block(name: str, before: str, inner: int, stride: int) -> list[Layer]:
        strides, around = (stride, 1) if reduced else (1, stride), before
        stack = normed(f"{name}.conv1", f"{name}.norm1", inner, 1, strides[0], (before,), "relu")
        stack += normed(f"{name}.conv2", f"{name}.norm2", inner, 3, strides[1], activation="relu")
        stack += normed(f"{name}.conv3", f"{name}.norm3", WIDER * inner, 1)
        if name.endswith(".0"):
            around = f"{name}.around"
            stack += normed(f"{name}.projection", around, WIDER * inner, 1, stride, (before,))
        return [*stack, Add(name=f"{name}.add", after=(f"{name}.norm3", around), activation="relu")]

    return (
        *normed("conv1", "norm1", 64, 7, 2, activation="relu"),
        Pool(name="pool1", window=3, pads=(1, 1, 1, 1)),
        *staged(BOTTLENECKS, 2, "pool1", block),
        Pool(name="pool", mode="average", window=0),
        Flatten(name="flat"),
        Dense(name="fc", outputs=1000),
    )


def pairs(blocks: int = 9, bias: bool = False, caffe: bool = False, behind: str = "relu") -> tuple[Layer, ...]:
    """Return the layers of ResNet-56, `blocks` per stage; `behind`: activation after a block's sum."""

    def block(name: str, before: str, channels: int, stride: int) -> list[Layer]:
        around, shortcut = list[Layer](), f"{name}.shortcut"
        if stride > 1 and caffe:
            around = [Convolution(name=shortcut, after=(before,), filters=channels, kernel=1, stride=2, bias=bias)]
        elif stride > 1:
            around = [Shortcut(name=shortcut, after=(before,), channels=channels, stride=stride)]
        after = (f"{name}.norm2", shortcut if around else before)
        return [
            *normed(f"{name}.conv1", f"{name}.norm1", channels, 3, stride, (before,), "relu", bias, not caffe),
            *normed(f"{name}.conv2", f"{name}.norm2", channels, 3, bias=bias, affine=not caffe),
            *around,
            Add(name=f"{name}.add", after=after, activation=behind),
        ]

    return (
        *normed("conv1", "norm1", 16, 3, activation="relu", bias=bias, affine=not caffe),
        *staged([(channels, blocks) for channels in CHANNELS], 1, "norm1", block),
        Pool(name="pool", mode="average", window=2 if caffe else 0),
        Flatten(name="flat"),
        Dense(name="fc", outputs=10),
    )


IMAGENET = Network(
    "resnet-50", f"{SOURCE}50, stride on 3 × 3", 16, bottlenecks(), rate=0.01, momentum=0.9, input=(3, 224, 224)
)
CIFAR = Network(
    "resnet-56", f"{SOURCE}56, as its TensorFlow script", 128, pairs(), rate=0.01, momentum=0.9, input=(3, 32, 32)
)
NETWORKS = by_name(
    IMAGENET,
    IMAGENET.variant("stride-1x1", f"{SOURCE}50, stride on 1 × 1", layers=bottlenecks(reduced=True)),
    CIFAR,
    CIFAR.variant(
        "bias",
        f"{SOURCE}56, Torch's and MXNet's form: biases in its convolutions, no ReLU behind its sums",
        layers=pairs(bias=True, behind="none"),
    ),
    CIFAR.variant(
        "caffe",
        f"{SOURCE}56, Caffe's form: shortcuts by projection, no scales, a pooling of 2 × 2",
        layers=pairs(bias=True, caffe=True),
    ),
    CIFAR.variant("cntk", f"{SOURCE}56, CNTK's form: eighteen blocks a stage, ResNet-110", layers=pairs(18)),
)
