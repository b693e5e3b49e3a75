"""Changes of PyTorch's recurrent layers: its sequence in place of a loop over the cell, time-major, packed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from macro.changes import _parts
from macro.changes.base import FAULTS, BaselineProfile, Change, Effect, Forecast, PredictionInput, ProcessSnapshot, Step
from macro.networks.layers import Recurrent

MAJOR = ("embedding", "recurrent", "mean", "dense", "activation")  # kinds that take steps as their first axis, too


def _unrolled(step: Step) -> bool:
    return any(isinstance(node.layer, Recurrent) and node.layer.unrolled for node in step.plan.network.nodes)


def _refused(step: Step, knob: str) -> str | None:
    why = None if step.has("recurrent") else "the network has no recurrent layer"
    return step.refuses_knob(knob, True, compiled=True) or why


def _applies_sequence(step: Step, value: str) -> str | None:
    if step.row.removesuffix("-compile") != "pytorch":
        return f"this suite cannot set it in {step.framework.name}"
    return None if _unrolled(step) else "the network has no unrolled recurrent layer"


def _make_sequence(step: Step, value: str) -> Step:
    network = step.plan.network
    layers = (replace(x, unrolled=False) if isinstance(x, Recurrent) else x for x in network.layers)
    return replace(step, plan=replace(step.plan, network=replace(network, layers=tuple(layers))))


def _applies_major(step: Step, value: str) -> str | None:
    others = [node.name for node in step.plan.network.nodes if node.layer.kind not in MAJOR and len(node.output) > 1]
    others += [node.name for node in step.plan.network.nodes if node.layer.kind in ("flatten", "concat")]
    return _refused(step, "time_major") or (f"{others[0]} takes batch-major sequences" if others else None)


def _applies_packed(step: Step, value: str) -> str | None:
    if why := _refused(step, "packed"):
        return why
    if _unrolled(step):
        return "PyTorch's cells take no packed sequences"
    return None if step.plan.network.padded else "the network has no padding"


def _took(flag: str, there: str) -> Callable[[BaselineProfile, ProcessSnapshot], Effect]:
    """Return the check of a flag of the model's recurrent layers."""

    def took(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
        now = after.flag(flag)
        return Effect(now == there, f"recurrent layers: {before.flag(flag)} before, {now} with the change")

    return took


def _brings(how: Mapping[str, Any]) -> Callable[[PredictionInput], Forecast]:
    return lambda asked: _parts.recurrences(asked, how)


CHANGES = (
    Change(
        "sequence",
        "recurrent layers as PyTorch's sequence, in place of a loop over its cell",
        _applies_sequence,
        _make_sequence,
        _took("recurrent", "sequence"),
        _brings({"variant": "torch-cells,torch"}),
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
        _brings({"variant": "torch", "vary": "layout", "layout": "ntc,tnc"}),
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
        _brings({"variant": "torch,torch-packed", "lengths": "shuffled"}),
        code="torch.nn.utils.rnn.pack_padded_sequence(x, lengths, …)",
        costs="oneDNN's sequence, which takes no packed ones; the last bits of results",
        memory=True,
        looks=(FAULTS,),
    ),
)
