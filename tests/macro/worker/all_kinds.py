"""A network of all kinds of layers."""

from __future__ import annotations

from macro.networks.base import Network
from macro.networks.layers import (
    Activation,
    Add,
    BatchNorm,
    Concat,
    Convolution,
    Dense,
    Flatten,
    LocalResponseNorm,
    Pool,
    Shortcut,
)

NET = Network(
    "all kinds",
    "a test",
    4,
    (
        Convolution(name="conv1", filters=8, kernel=5, stride=2, pads=(2, 1, 1, 2)),
        BatchNorm(name="norm", activation="relu"),
        Pool(name="pool1", window=3, rounding="ceil"),
        Convolution(name="conv2", filters=8, pad=1, groups=2, activation="sigmoid"),
        LocalResponseNorm(name="lrn", size=3, alpha=0.5, beta=0.6, k=2.0),
        Activation(name="act", activation="relu"),
        Add(name="add", after=("act", "lrn")),
        Add(name="sum", after=("add", "pool1"), activation="relu"),
        Shortcut(name="shortcut", after=("sum",), channels=12),
        Convolution(name="conv3", after=("sum",), filters=12, stride=2, pad=2, dilation=2, bias=False),
        Concat(name="concat", after=("shortcut", "conv3")),
        Pool(name="pool2", mode="average", stride=1, rounding="ceil"),
        Pool(name="pool3", mode="average", window=0),
        Flatten(name="flat", activation="relu"),
        Activation(name="curve", activation="sigmoid"),
        Dense(name="fc", outputs=5),
    ),
    rate=0.1,
    momentum=0.9,
    input=(3, 20, 18),
)
