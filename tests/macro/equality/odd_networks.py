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
from macro.networks.layers import Add, BatchNorm, Convolution, Dense, Flatten, Pool, Shortcut  # noqa: E402

KINDS = ("dense", "conv", "pool", "norm", "add", "flatten", "shortcut")
ROWS = {
    "right": {"change": "right"},
    "frozen": {"change": "frozen"},
    "ceil": {"change": "ceil"},
    "shifted": {"change": "shifted"},
    "unpadded": {"change": "unpadded"},
    "padded": {"change": "padded"},
    "biased": {"change": "biased"},
    "wider": {"change": "wider"},
    "squared": {"change": "squared"},
    "projected": {"change": "projected"},
    "deeper": {"change": "deeper"},
    "shallower": {"change": "shallower"},
    "trained": {"change": "trained"},
}
RECIPE = {}
NET = Network(
    "odd-4",
    "a test",
    8,
    (
        Convolution(name="conv1", filters=8, stride=2, pad=1, bias=False),
        BatchNorm(name="norm1", activation="relu"),
        Pool(name="pool1", window=3),
        Convolution(name="conv2", filters=8, pad=1, bias=False),
        Add(name="add", after=("conv2", "pool1"), activation="relu"),
        Convolution(name="conv3", filters=16, stride=2, pad=1, bias=False),
        Shortcut(name="short", after=("add",), channels=16),
        Add(name="sum", after=("conv3", "short"), activation="relu"),
        Pool(name="pool2", mode="average", window=0),
        Flatten(name="flat"),
        Dense(name="fc", outputs=5),
    ),
    rate=0.1,
    momentum=0.9,
    input=(3, 16, 16),
)


FIELDS = {  # of a layer, by the mistake
    "frozen": ("norm1", {"frozen": True}),
    "ceil": ("pool1", {"rounding": "ceil"}),
    "shifted": ("conv1", {"pad": 0, "pads": (0, 0, 1, 1)}),
    "unpadded": ("conv1", {"pad": 0}),
    "padded": ("conv1", {"pad": 2}),
    "biased": ("conv2", {"bias": True}),
    "wider": ("conv2", {"dilation": 2, "pad": 2}),
    "deeper": ("add", {"after": ("conv2b", "pool1")}),
    "shallower": ("add", {"after": ("pool1", "pool1")}),
}


def changed(change):
    """The network that is built."""
    by_name = {layer.name: layer for layer in NET.layers}
    if change in FIELDS:
        name, fields = FIELDS[change]
        by_name[name] = replace(by_name[name], **fields)
    if change == "projected":
        by_name["short"] = Convolution(name="short", after=("add",), filters=16, kernel=1, stride=2, bias=False)
    if change == "shallower":
        del by_name["conv2"]
    layers = list(by_name.values())
    if change == "deeper":
        layers.insert(4, Convolution(name="conv2b", filters=8, pad=1, bias=False))
    return replace(NET, layers=tuple(layers), loss="squared" if change == "squared" else NET.loss)


def numpy():
    spec = importlib.util.spec_from_file_location("plain", ROOT / "macro/frameworks/numpy.py")
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    return plain


def available():
    return None


def identity(job):
    return {"framework": "of a test", "version": "1"}


def build(job):
    import numpy as np

    plan = changed(job["knobs"]["change"]).plan()
    with np.load(job["weights"]) as given:
        weights = {
            name: given[name] if name in given.files else np.zeros(shape, np.float32)
            for told in plan["layers"]
            for name, shape in ((told["name"] + "." + key, shape) for key, shape in told["parameters"].items())
        }
    own = Path(job["weights"]).with_name(f"own-{job['knobs']['change']}.npz")
    np.savez(own, **weights)
    model = numpy().Model(dict(job, network=plan, weights=str(own)))
    if job["knobs"]["change"] == "trained":
        work = model.work()
        work["parameters"]["images"] = work["batch"] * NET.features
        model.work = lambda: work
    return model
