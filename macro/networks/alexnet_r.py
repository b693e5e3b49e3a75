"""AlexNet-R: a small convolutional net on CIFAR-10's images (arXiv 1608.07249, "AlexNet-R").

By Shi, Wang, Xu and Chu. Despite its name the net is cuda-convnet's of 18 % error without local response
normalizations. Where the second pooling stands before its ReLU (TensorFlow, CNTK) results are the same. Caffe rounds
the sizes of poolings up.
"""

from __future__ import annotations

from macro.networks.base import Network, by_name
from macro.networks.layer import Layer
from macro.networks.layers import Convolution, Dense, Flatten, Pool

SOURCE = "arXiv 1608.07249, AlexNet-R"


def layers(rounding: str = "floor") -> tuple[Layer, ...]:
    """Return the layers, with sizes of poolings rounded down (`floor`) or up (`ceil`)."""
    return (
        Convolution(name="conv1", filters=32, kernel=5, pad=2),
        Pool(name="pool1", window=3, rounding=rounding, activation="relu"),
        Convolution(name="conv2", filters=32, kernel=5, pad=2, activation="relu"),
        Pool(name="pool2", window=3, rounding=rounding),
        Convolution(name="conv3", filters=64, kernel=5, pad=2, activation="relu"),
        Pool(name="pool3", mode="average", window=3, rounding=rounding),
        Flatten(name="flat"),
        Dense(name="fc", outputs=10),
    )


TEXT = Network("alexnet-r", SOURCE, 1024, layers(), rate=0.01, momentum=0.9, input=(3, 32, 32))
NETWORKS = by_name(TEXT, TEXT.variant("caffe", f"{SOURCE}, Caffe's form", layers=layers("ceil")))
