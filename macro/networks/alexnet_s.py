"""AlexNet-S: AlexNet on synthetic images, without normalizations and dropout (arXiv 1608.07249).

The five scripts of Shi, Wang, Xu and Chu do not build the same network. Torch's is the one below; CNTK's pads its
convolutions so that images keep their size (56 for 55 behind conv1); TensorFlow's pads its poolings too and has a ReLU
on its logits (its images are trainable too, which no network here is); Caffe's pads nothing; in MXNet's graph conv5 and
its pooling read relu3 and fc8 reads that pooling, so that nobody computes conv4, conv5, fc6 and fc7.
"""

from __future__ import annotations

from macro.networks.base import Network, by_name
from macro.networks.layer import Layer
from macro.networks.layers import Convolution, Dense, Flatten, Pool

SOURCE = "arXiv 1608.07249, AlexNet-S"
CLASSES = 1000
SAME = (3, 3, 4, 4)  # zeros that TensorFlow puts around an image of 224 for 11 × 11 in steps of 4
CENTERED = (4, 4, 3, 3)  # those that CNTK puts there


def conv(number: int, filters: int, kernel: int, pad: int, stride: int = 1, pads: tuple[int, ...] = ()) -> Layer:
    """Return a convolution with its ReLU."""
    return Convolution(
        name=f"conv{number}", filters=filters, kernel=kernel, pad=pad, stride=stride, pads=pads, activation="relu"
    )


def features(pads: tuple[int, int, int], rounding: str = "floor", first: tuple[int, ...] = ()) -> tuple[Layer, ...]:
    """Return convolutions and poolings; `pads`: for the kernels of 11 × 11, 5 × 5 and 3 × 3."""
    large, middle, small = pads
    return (
        conv(1, 96, 11, large, 4, first),
        Pool(name="pool1", window=3, rounding=rounding),
        conv(2, 256, 5, middle),
        Pool(name="pool2", window=3, rounding=rounding),
        conv(3, 384, 3, small),
        conv(4, 384, 3, small),
        conv(5, 256, 3, small),
        Pool(name="pool5", window=3, rounding=rounding),
        Flatten(name="flat"),
    )


def classifier(last: str = "none") -> tuple[Layer, ...]:
    """Return the dense layers; `last`: the activation of the logits."""
    return (
        Dense(name="fc6", outputs=4096, activation="relu"),
        Dense(name="fc7", outputs=4096, activation="relu"),
        Dense(name="fc8", outputs=CLASSES, activation=last),
    )


MIS_WIRED = (
    conv(1, 96, 11, 1, 4),
    Pool(name="pool1", window=3),
    conv(2, 256, 5, 1),
    Pool(name="pool2", window=3),
    conv(3, 384, 3, 1),
    Pool(name="pool5", window=3),
    Flatten(name="flat"),
    Dense(name="fc8", outputs=CLASSES),
)
SCRIPTS = Network(
    "alexnet-s",
    f"{SOURCE}, as its Torch script",
    16,
    (*features((2, 2, 1)), *classifier()),
    rate=0.01,
    input=(3, 224, 224),
)
NETWORKS = by_name(
    SCRIPTS,
    SCRIPTS.variant(
        "tf",
        f"{SOURCE}, TensorFlow's form: SAME padding, ReLU on the logits",
        layers=(*features((0, 2, 1), "ceil", SAME), *classifier("relu")),
    ),
    SCRIPTS.variant(
        "cntk",
        f"{SOURCE}, CNTK's form: convolutions that keep the size of images",
        layers=(*features((0, 2, 1), first=CENTERED), *classifier()),
    ),
    SCRIPTS.variant(
        "caffe",
        f"{SOURCE}, Caffe's form: no padding, sizes of poolings round up",
        layers=(*features((0, 0, 0), "ceil"), *classifier()),
    ),
    SCRIPTS.variant("mxnet", f"{SOURCE}, MXNet's form: the layers that its graph reaches", layers=MIS_WIRED),
)
