"""ResNet-50 on images of 224 × 224 (He, Zhang, Ren, Sun, CVPR 2016; arXiv 1608.07249, "ResNet-50").

Stages of 3, 4, 6 and 3 bottlenecks. The stride of a stage's first block is that of its 3 × 3 convolution (Torch, CNTK,
MXNet) or of the 1 × 1 before it (Caffe, TensorFlow).
"""

from __future__ import annotations

from macro.networks.base import Network, by_name
from macro.networks.layer import Layer
from macro.networks.layers import Add, BatchNorm, Convolution, Dense, Flatten, Pool

SOURCE = "arXiv 1608.07249, ResNet-50"
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # inner channels and blocks
WIDER = 4  # times as many channels outside


def normed(name: str, norm: str, filters: int, kernel: int, stride: int = 1, **about: object) -> list[Layer]:
    """Return a convolution and its normalization.

    `about`: the convolution's `after`, the normalization's `activation`.
    """
    after, activation = about.get("after", ()), about.get("activation", "none")
    pad = kernel // 2
    return [
        Convolution(name=name, filters=filters, kernel=kernel, stride=stride, pad=pad, bias=False, after=after),  # type: ignore[arg-type]
        BatchNorm(name=norm, activation=activation),  # type: ignore[arg-type]
    ]


def block(name: str, before: str, inner: int, stride: int, projects: bool, reduced: bool) -> list[Layer]:
    """Return a bottleneck, 1 × 1, 3 × 3, 1 × 1, and its shortcut; `reduced`: the first has the stride."""
    strides = (stride, 1) if reduced else (1, stride)
    stack = normed(f"{name}.conv1", f"{name}.norm1", inner, 1, strides[0], after=(before,), activation="relu")
    stack += normed(f"{name}.conv2", f"{name}.norm2", inner, 3, strides[1], activation="relu")
    stack += normed(f"{name}.conv3", f"{name}.norm3", WIDER * inner, 1)
    around = before
    if projects:
        around = f"{name}.around"
        stack += normed(f"{name}.projection", around, WIDER * inner, 1, stride, after=(before,))
    return [*stack, Add(name=f"{name}.add", after=(f"{name}.norm3", around), activation="relu")]


def layers(reduced: bool = False) -> tuple[Layer, ...]:
    """Return all layers; `reduced`: a stage's stride is that of its first 1 × 1."""
    stack = normed("conv1", "norm1", 64, 7, 2, activation="relu")
    stack.append(Pool(name="pool1", window=3, pads=(1, 1, 1, 1)))
    before = "pool1"
    for stage, (inner, blocks) in enumerate(STAGES, 2):
        for number in range(blocks):
            name, stride = f"stage{stage}.{number}", 2 if stage > 2 and number == 0 else 1
            stack += block(name, before, inner, stride, number == 0, reduced)
            before = f"{name}.add"
    return (*stack, Pool(name="pool", mode="average", window=0), Flatten(name="flat"), Dense(name="fc", outputs=1000))


TEXT = Network("resnet-50", f"{SOURCE}, stride on 3 × 3", 16, layers(), rate=0.01, momentum=0.9, input=(3, 224, 224))
NETWORKS = by_name(TEXT, TEXT.variant("stride-1x1", f"{SOURCE}, stride on 1 × 1", layers=layers(reduced=True)))
