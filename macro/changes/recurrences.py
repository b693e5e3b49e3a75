"""Changes of PyTorch's recurrent layers: its sequence in place of a loop over the cell, time-major, packed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernels.ops.recurrent import lengths
from macro.changes import _parts
from macro.changes.base import FAULTS, BaselineProfile, Change, Effect, Forecast, PredictionInput, ProcessSnapshot, Step
from macro.networks.layers import Recurrent

# Kinds of layers that take sequences with the steps as their first axis, too
MAJOR = ("embedding", "recurrent", "mean", "dense", "activation", "add")


def _refused(step: Step, knob: str) -> str | None:
    why = None if step.has("recurrent") else "the network has no recurrent layer"
    return step.refuses_knob(knob, True, compiled=True) or why


def _recurrent(step: Step) -> list[Recurrent]:
    return [node.layer for node in step.plan.network.nodes if isinstance(node.layer, Recurrent)]


def _applies_sequence(step: Step, value: str) -> str | None:
    unrolled = any(layer.unrolled for layer in _recurrent(step))
    return _refused(step, "sequence") or (None if unrolled else "the network has no unrolled recurrent layer")


def _applies_major(step: Step, value: str) -> str | None:
    others = (node for node in step.plan.network.nodes if node.layer.kind not in MAJOR)
    taking = [node.name for node in others if any(len(shape) > 1 for shape in (*node.inputs, node.output))]
    return _refused(step, "time_major") or (f"{taking[0]} takes batch-major sequences" if taking else None)


def _applies_packed(step: Step, value: str) -> str | None:
    if why := _refused(step, "packed"):
        return why
    if not step.plan.network.padded:
        return "the network has no padding"
    if any(layer.unrolled and not step.knob("sequence") for layer in _recurrent(step)):
        return "PyTorch's cells take no packed sequences"
    if any(layer.bidirectional or layer.last or layer.carried for layer in _recurrent(step)):
        return "its padding counts in a last state or in the reverse direction"
    return None


def _took(flag: str, there: str) -> Callable[[BaselineProfile, ProcessSnapshot], Effect]:
    """Return the check of a flag of the model's recurrent layers."""

    def took(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
        now = after.flag(flag)
        return Effect(now == there, f"recurrent layers: {before.flag(flag)} before, {now} with the change")

    return took


def _brings(how: Mapping[str, Any]) -> Callable[[PredictionInput], Forecast]:
    return lambda asked: _parts.recurrences(asked, how)


def _brings_sequence(asked: PredictionInput) -> Forecast:
    how = {"variant": "torch-cells,torch"}
    return _parts.recurrences(asked, how, lambda layer: layer.unrolled, (*_parts.CELLS, "packing"))


CHANGES = (
    Change(
        "sequence",
        "recurrent layers as PyTorch's sequence, in place of a loop over its cell",
        _applies_sequence,
        lambda step, value: step.with_knob("sequence", True),
        _took("recurrent", "sequence"),
        _brings_sequence,
        code="torch.nn.LSTM in place of a loop over torch.nn.LSTMCell",
        costs="the last bits of results",
        memory=True,
        looks=(FAULTS,),
    ),
    Change(
        "time-major",
        "sequences as steps × batch × features (batch_first=False)",
        _applies_major,
        lambda step, value: step.with_knob("time_major", True),
        _took("major", "time"),
        _brings({"vary": "layout", "layout": "ntc,tnc"}),
        code="torch.nn.LSTM(…, batch_first=False) on transposed ids",
        costs="the last bits of results",
        memory=True,
        looks=(FAULTS,),
    ),
    Change(
        "packed",
        "sequences packed without their padding (pack_padded_sequence)",
        _applies_packed,
        lambda step, value: step.with_knob("packed", True),
        _took("recurrent", "packed"),
        # The network's lengths are these, scaled to its number of steps.
        _brings({"variant": "torch,torch-packed", "lengths": "shuffled", "steps": lengths.every()[-1]}),
        code="torch.nn.utils.rnn.pack_padded_sequence(x, lengths, …)",
        costs="oneDNN's sequence, which takes no packed ones; the last bits of results",
        memory=True,
        looks=(FAULTS,),
    ),
)
