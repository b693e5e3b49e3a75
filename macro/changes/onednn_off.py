"""A framework without oneDNN.

PyTorch takes NNPACK for convolutions forward and its own im2col, TensorFlow Eigen, MXNet its own im2col.
"""

from __future__ import annotations

import re

from macro.changes import _parts, products
from macro.changes.base import Asked, Before, Change, Effect, Forecast, Seen, Step

# Variables of other rows; on by default in TensorFlow's wheels on x86-64, built into MXNet's.
SWITCHES = {
    "tensorflow-graph": ("TF_ENABLE_ONEDNN_OPTS", "0"),
    "tensorflow-eager": ("TF_ENABLE_ONEDNN_OPTS", "0"),
    "keras-tensorflow": ("TF_ENABLE_ONEDNN_OPTS", "0"),
    "mxnet": ("MXNET_MKLDNN_ENABLED", "0"),
}
FUNCTIONS = re.compile("dnnl")  # in the names of oneDNN's


def applies(step: Step, value: str) -> str | None:
    if step.row in SWITCHES:
        name, off = SWITCHES[step.row]
        return "it is made already" if step.setting.knobs.get("variables", {}).get(name) == off else None
    if why := step.refuses_knob("onednn", False):
        return why
    if not step.has("conv"):
        return "only convolutions are oneDNN's, and the network has none"
    return None


def make(step: Step, value: str) -> Step:
    if step.row in SWITCHES:
        name, off = SWITCHES[step.row]
        return step.with_variables({name: off})
    return step.with_knob("onednn", False)


def took(before: Before, after: Seen) -> Effect:
    """Check the flag that PyTorch and TensorFlow report; for MXNet, the functions that samples are in."""
    if isinstance(after.flag("mkldnn"), bool):
        there = after.flag("mkldnn") is False
        return Effect(there, f"PyTorch says that oneDNN is {'off' if there else 'on'}")
    was, now = (x.identity.get("dnn") for x in (before, after))
    if was and not now:
        return Effect(True, f"{was} before; with it the framework says that it has none")
    return products.gone(before, after, FUNCTIONS, "oneDNN's functions")


def brings(asked: Asked) -> Forecast:
    if asked.unchanged.row in SWITCHES:
        return Forecast(why=f"no kernel here is what {asked.unchanged.framework.name} takes instead")
    return _parts.convolutions(asked, {"variant": "torch,torch-without-onednn"})


CHANGE = Change(
    "onednn-off",
    "convolutions (of TensorFlow and MXNet products too) without oneDNN",
    applies,
    make,
    took,
    brings,
    saves=("convolution", "layout reorder"),
    code="torch.backends.mkldnn.set_flags(False)",
    costs="memory for columns; the last bits of results",
    memory=True,
)
