"""Each kind of layer, and each way of it, in every framework that is here: the work of NumPy, or what it lacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from macro.equality.proof import prove
from macro.frameworks import find, home, interpreter, names
from macro.networks.base import Network
from macro.networks.layer import Layer
from macro.networks.layers import (
    Activation,
    Add,
    BatchNorm,
    Concat,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    LocalResponseNorm,
    Pool,
    Shortcut,
)
from macro.processes.job import Setting

pytestmark = pytest.mark.slow
ENVIRONMENTS = home()
END = (Flatten(name="flat"), Dense(name="fc", outputs=5))
LAYERS: dict[str, tuple[Layer, ...]] = {
    "sides, strides, ceil, joins": (
        Convolution(name="conv1", filters=8, kernel=5, stride=2, pads=(2, 1, 1, 2), activation="relu"),
        Pool(name="pool1", window=3, rounding="ceil"),
        Convolution(name="conv2", filters=8, pad=1, bias=False, activation="sigmoid"),
        Add(name="add", after=("conv2", "pool1"), activation="relu"),
        Concat(name="concat", after=("add", "pool1")),
        Pool(name="pool2", mode="average", window=2, stride=1),
        Pool(name="pool3", mode="average", window=0),
        Flatten(name="flat"),
        Activation(name="curve", activation="sigmoid"),
        Dropout(name="drop"),
        Dense(name="fc", outputs=5),
    ),
    "normalized": (
        BatchNorm(name="first", activation="relu"),
        Convolution(name="conv", filters=6, pad=1, bias=False),
        BatchNorm(name="norm", activation="relu"),
        BatchNorm(name="frozen", frozen=True, activation="relu"),
        BatchNorm(name="plain", affine=False),
        Pool(name="pool", mode="average", window=0),
        *END,
    ),
    "padded poolings": (
        Convolution(name="conv", filters=6, pad=1, activation="relu"),
        Pool(name="most", pads=(1, 1, 1, 1), window=3, stride=2, rounding="ceil"),
        Pool(name="mean", mode="average", pads=(1, 1, 1, 1), window=3, stride=2),
        *END,
    ),
    "groups": (Convolution(name="conv", filters=6, groups=3, pad=1, activation="relu"), *END),
    "dilation": (Convolution(name="conv", filters=6, dilation=2, pad=2, activation="relu"), *END),
    "across channels": (Convolution(name="conv", filters=6), LocalResponseNorm(name="lrn", alpha=0.5, beta=0.6), *END),
    "around": (
        Convolution(name="first", filters=3, pad=1, activation="relu"),
        Convolution(name="conv", filters=6, pad=1, stride=2),
        Shortcut(name="shortcut", after=("first",), channels=6),
        Add(name="add", after=("conv", "shortcut"), activation="relu"),
        *END,
    ),
}
LOSS = {"normalized": "binary", "padded poolings": "squared"}
LACKS = {  # the first words of why, by network and the beginning of a row's name
    ("normalized", "cntk"): "there is no norm here",
    ("groups", "tensorflow"): "there are no groups of a convolution here",
    ("groups", "keras-tensorflow"): "there are no groups of a convolution here",
    ("groups", "cntk"): "there are no groups of a convolution here",
    ("dilation", "tensorflow-graph"): "there is no dilation of a convolution here",
    ("dilation", "tensorflow-eager"): "there is no dilation of a convolution here",
    ("dilation", "cntk"): "there is no dilation of a convolution here",
    ("across channels", "keras"): "there is no lrn here",
    ("around", "cntk"): "there is no shortcut here",
    ("around", "keras-tensorflow"): "crashes",  # TensorFlow does
}
MISSING = ("No module named", "threads here: pip install torch")  # of packages that are not here
SET = {"mxnet": {"variables": {"MXNET_MKLDNN_ENABLED": "0"}}}  # else its gradient of lrn is wrong


@pytest.mark.parametrize("name", LAYERS)
def test_equal_or_lacking(name: str, own_state: Path, tmp_path: Path) -> None:
    if ENVIRONMENTS.is_dir():
        (own_state / "environments").symlink_to(ENVIRONMENTS)
    net = Network(name, "a test", 4, LAYERS[name], rate=0.01, momentum=0.9, input=(3, 14, 13))
    rows = [find(row) for row in names() if interpreter(find(row)) is not None]
    wanted = [(row, Setting(knobs=SET.get(row.name, {}))) for row in rows]
    wanted += [(find("kernels-only"), Setting(2))]
    verdicts = prove(replace(net, loss=LOSS.get(name, "softmax")), 4, wanted, tmp_path, lambda text: None)
    told = {}
    for verdict in verdicts:
        lacks = [why for (of, row), why in LACKS.items() if of == name and verdict.framework.startswith(row)]
        right = verdict.equal if not lacks else not verdict.compared and str(verdict.why).startswith(lacks[0])
        if not right and not any(word in str(verdict.why) for word in MISSING):
            told[verdict.framework] = verdict.why
    assert not told
