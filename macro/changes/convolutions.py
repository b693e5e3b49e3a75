"""Changes of convolutions: another layout, or another library.

With PyTorch's images and filters in NHWC (torch.channels_last), oneDNN's convolutions need no reorders. Without oneDNN,
PyTorch's forward convolutions use NNPACK or its im2col, TensorFlow uses Eigen, MXNet its im2col.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from kernels.ops.conv.problem import Conv
from macro.changes import _parts, products
from macro.changes.base import FAULTS, BaselineProfile, Change, Effect, Forecast, PredictionInput, ProcessSnapshot, Step
from macro.networks.layers import Recurrent

# Variables that switch oneDNN off in other frameworks; x86-64 wheels of TensorFlow and MXNet use it by default.
SWITCHES = {
    "tensorflow-graph": ("TF_ENABLE_ONEDNN_OPTS", "0"),
    "tensorflow-eager": ("TF_ENABLE_ONEDNN_OPTS", "0"),
    "keras-tensorflow": ("TF_ENABLE_ONEDNN_OPTS", "0"),
    "mxnet": ("MXNET_MKLDNN_ENABLED", "0"),
}
FUNCTIONS = re.compile("dnnl")  # in the names of oneDNN's functions


def _applies_layout(step: Step, value: str) -> str | None:
    why = None if step.has("conv") else "the network has no convolution"
    return step.refuses_knob("channels_last", True) or why


def _took_layout(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    there = after.flag("layout") == "channels_last"
    return Effect(there, f"filters are stored as {'NHWC' if there else 'NCHW'}")


def _brings_layout(asked: PredictionInput) -> Forecast:
    """Predict convolutions and poolings in isolation in both layouts; normalizations remain unknown."""
    both = {"vary": "layout", "layout": "nchw,nhwc"}
    before, convolutions = asked.before, _parts.gathered(_parts.by_row(asked.before, Conv, _parts.CONVOLUTIONS))
    parts: list[tuple[float, Callable[[PredictionInput], Forecast]]] = [
        (before.kinds("pooling"), partial(_parts.poolings, how={**both, "variant": "torch"}))
    ]
    # All but dgrad with bias: the bias gradient, a sum over images, is slower with channels last.
    for variant, dgrad in (("torch-bias", False), ("torch", True)):
        spent = {x: of for x, of in convolutions.items() if (isinstance(x, Conv) and x.direction == "dgrad") is dgrad}
        parts.append((_parts.total(spent), partial(_parts.each, spent=spent, how={**both, "variant": variant})))
    forecast = _parts.shared(asked, *parts)
    forecast = _parts.with_rest(asked, "other convolutions", _parts.CONVOLUTIONS, convolutions, forecast)
    rest = Forecast((_parts.unknown("normalizations", before.kinds("normalization")),))
    return _parts.together(forecast, rest)


def _applies_onednn(step: Step, value: str) -> str | None:
    if step.row in SWITCHES:
        name, off = SWITCHES[step.row]
        return "already applied" if step.setting.knobs.get("variables", {}).get(name) == off else None
    only = "convolutions and for LSTM layers that are no loops"
    why = f"{step.framework.name} uses oneDNN only for {only}, and the network has none"
    uses = step.has("conv") or any(isinstance(x, Recurrent) and _by_onednn(x) for x in step.plan.network.layers)
    return step.refuses_knob("onednn", False) or (None if uses else why)


def _by_onednn(layer: Recurrent) -> bool:
    """Return whether PyTorch runs a recurrent layer in oneDNN."""
    return layer.cell == "lstm" and not layer.unrolled


def _make_onednn(step: Step, value: str) -> Step:
    if step.row in SWITCHES:
        return step.with_variables(dict([SWITCHES[step.row]]))
    return step.with_knob("onednn", False)


def _took_onednn(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    """Check the library that PyTorch or TensorFlow reports; for MXNet, the sampled functions."""
    if isinstance(after.flag("mkldnn"), bool):
        there = after.flag("mkldnn") is False
        return Effect(there, f"PyTorch reports oneDNN {'off' if there else 'on'}")
    was, now = (x.identity.get("dnn") for x in (before, after))
    if was and not now:
        return Effect(True, f"the framework reported {was} before, none with the change")
    return products.gone(before, after, FUNCTIONS, "oneDNN's functions")


def _brings_onednn(asked: PredictionInput) -> Forecast:
    if asked.unchanged.row in SWITCHES:
        return Forecast(why=f"this suite lacks the kernels that {asked.unchanged.framework.name} uses instead")
    how = {"variant": "torch,torch-without-onednn"}
    return _parts.shared(
        asked,
        (asked.before.kinds(*_parts.CONVOLUTIONS), lambda x: _parts.convolutions(x, how)),
        (asked.before.kinds("recurrent cell"), lambda x: _parts.recurrences(x, how, _by_onednn)),
    )


CHANGES = (
    Change(
        "channels-last",
        "images and filters stored as NHWC (torch.channels_last)",
        _applies_layout,
        lambda step, value: step.with_knob("channels_last", True),
        _took_layout,
        _brings_layout,
        costs="the last bits of results",
        saves=("layout reorder", "convolution"),
        measures=("layout reorder", "convolution", "pooling"),
        code="model.to(memory_format=torch.channels_last); x = x.contiguous(memory_format=torch.channels_last)",
        trial="channels_last",
        memory=True,
        looks=(FAULTS,),
    ),
    Change(
        "onednn-off",
        "convolutions and LSTM layers without oneDNN (in TensorFlow and MXNet products, too)",
        _applies_onednn,
        _make_onednn,
        _took_onednn,
        _brings_onednn,
        saves=("convolution", "layout reorder", "recurrent cell"),
        code="torch.backends.mkldnn.set_flags(False)",
        costs="memory for columns; the last bits of results",
        memory=True,
    ),
)
