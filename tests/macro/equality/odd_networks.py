"""Frameworks that build another network than they were given, a mistake each: NumPy, on the network of NET.

They join by their file, as tests/macro/defects.py.
"""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from macro.networks.base import Network  # noqa: E402
from macro.networks.layers.add import Add  # noqa: E402
from macro.networks.layers.conv import Convolution  # noqa: E402
from macro.networks.layers.dense import Dense  # noqa: E402
from macro.networks.layers.flatten import Flatten  # noqa: E402
from macro.networks.layers.norm import BatchNorm  # noqa: E402
from macro.networks.layers.pool import Pool  # noqa: E402

ROWS = {
    "right": {"change": "right"},
    "frozen": {"change": "frozen"},
    "ceil": {"change": "ceil"},
    "shifted": {"change": "shifted"},
    "biased": {"change": "biased"},
    "wider": {"change": "wider"},
    "squared": {"change": "squared"},
}
RECIPE = {}
NET = Network(
    "odd",
    "a test",
    8,
    (
        Convolution(name="conv1", filters=8, stride=2, pad=1, bias=False),
        BatchNorm(name="norm1", activation="relu"),
        Pool(name="pool1", window=3),
        Convolution(name="conv2", filters=8, pad=1, bias=False),
        Add(name="add", after=("conv2", "pool1"), activation="relu"),
        Pool(name="pool2", mode="average", window=0),
        Flatten(name="flat"),
        Dense(name="fc", outputs=5),
    ),
    rate=0.1,
    momentum=0.9,
    input=(3, 16, 16),
)


def changed(change):
    """The network that is built."""
    by_name = {layer.name: layer for layer in NET.layers}
    if change == "frozen":
        by_name["norm1"] = replace(by_name["norm1"], frozen=True)
    if change == "ceil":
        by_name["pool1"] = replace(by_name["pool1"], rounding="ceil")
    if change == "shifted":
        by_name["conv1"] = replace(by_name["conv1"], pad=0, pads=(0, 0, 1, 1))
    if change == "biased":
        by_name["conv2"] = replace(by_name["conv2"], bias=True)
    if change == "wider":
        by_name["conv2"] = replace(by_name["conv2"], dilation=2, pad=2)
    loss = "squared" if change == "squared" else NET.loss
    return replace(NET, layers=tuple(by_name.values()), loss=loss)


def numpy():
    spec = importlib.util.spec_from_file_location("plain", ROOT / "macro/frameworks/numpy.py")
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    return plain


def kinds():
    return ("dense", "conv", "pool", "norm", "add", "flatten")


def available():
    return None


def identity(job):
    return {"framework": "of a test", "version": "1"}


def build(job):
    import numpy as np

    plan = changed(job["knobs"]["change"]).plan()
    with np.load(job["weights"]) as given:
        weights = {name: given[name] for name in given.files}
    for told in plan["layers"]:
        for name, shape in told["parameters"].items():
            weights.setdefault(told["name"] + "." + name, np.zeros(shape, np.float32))
    own = Path(job["weights"]).with_name(f"own-{job['knobs']['change']}.npz")
    np.savez(own, **weights)
    return numpy().Model(dict(job, network=plan, weights=str(own)))
