"""ResNet-56 on CIFAR-10's images (He, Zhang, Ren, Sun, CVPR 2016; arXiv 1608.07249, "ResNet-56").

Nine blocks of two 3 × 3 convolutions in each of three stages, a normalization behind each convolution, shortcuts
without parameters. TensorFlow's script has no biases in its convolutions; Torch's and MXNet's have, and no ReLU behind
their sums. Caffe's has projections as shortcuts, no scales and a pooling of 2 × 2; CNTK's file of that name has
eighteen blocks and so is ResNet-110.
"""

from __future__ import annotations

from macro.networks.base import Network, by_name
from macro.networks.layer import Layer
from macro.networks.layers import Add, BatchNorm, Convolution, Dense, Flatten, Pool, Shortcut

SOURCE = "arXiv 1608.07249, ResNet-56"
CHANNELS = (16, 32, 64)  # of the stages


def block(name: str, before: str, channels: int, stride: int, bias: bool, caffe: bool, behind: str) -> list[Layer]:
    """Return two convolutions and the shortcut around them, from `before` to `{name}.add`."""
    around: list[Layer] = []
    if stride > 1 and caffe:
        around = [
            Convolution(name=f"{name}.shortcut", after=(before,), filters=channels, kernel=1, stride=2, bias=bias)
        ]
    elif stride > 1:
        around = [Shortcut(name=f"{name}.shortcut", after=(before,), channels=channels, stride=stride)]
    return [
        Convolution(name=f"{name}.conv1", after=(before,), filters=channels, stride=stride, pad=1, bias=bias),
        BatchNorm(name=f"{name}.norm1", affine=not caffe, activation="relu"),
        Convolution(name=f"{name}.conv2", filters=channels, pad=1, bias=bias),
        BatchNorm(name=f"{name}.norm2", affine=not caffe),
        *around,
        Add(name=f"{name}.add", after=(f"{name}.norm2", around[0].name if around else before), activation=behind),
    ]


def layers(blocks: int = 9, bias: bool = False, caffe: bool = False, behind: str = "relu") -> tuple[Layer, ...]:
    """Return all layers.

    `blocks` in a stage; `bias`: convolutions have a bias; `caffe`: the deviations of that script; `behind`: the
    activation of a block's sum.
    """
    stack: list[Layer] = [
        Convolution(name="conv1", filters=16, pad=1, bias=bias),
        BatchNorm(name="norm1", affine=not caffe, activation="relu"),
    ]
    before = "norm1"
    for stage, channels in enumerate(CHANNELS, 1):
        for number in range(blocks):
            name, stride = f"stage{stage}.{number}", 2 if stage > 1 and number == 0 else 1
            stack += block(name, before, channels, stride, bias, caffe, behind)
            before = f"{name}.add"
    return (
        *stack,
        Pool(name="pool", mode="average", window=2 if caffe else 0),
        Flatten(name="flat"),
        Dense(name="fc", outputs=10),
    )


TEXT = Network(
    "resnet-56", f"{SOURCE}, as its TensorFlow script", 128, layers(), rate=0.01, momentum=0.9, input=(3, 32, 32)
)
NETWORKS = by_name(
    TEXT,
    TEXT.variant(
        "bias",
        f"{SOURCE}, Torch's and MXNet's form: biases in its convolutions, no ReLU behind its sums",
        layers=layers(bias=True, behind="none"),
    ),
    TEXT.variant(
        "caffe",
        f"{SOURCE}, Caffe's form: shortcuts by projection, no scales, a pooling of 2 × 2",
        layers=layers(bias=True, caffe=True),
    ),
    TEXT.variant("cntk", f"{SOURCE}, CNTK's form: eighteen blocks a stage, ResNet-110", layers=layers(18)),
)
