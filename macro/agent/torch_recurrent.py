"""Recurrent layers in PyTorch: its sequence, or a loop over its cell; batch-major, time-major or packed.

Beside the network's own, a layer has the keys that `formed` adds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_FIRST = {"weight": "weight_ih_l0", "recurrent": "weight_hh_l0", "bias": "bias_ih_l0", "state_bias": "bias_hh_l0"}
NAMES = {**_FIRST, **{f"reverse_{name}": f"{x}_reverse" for name, x in _FIRST.items()}}  # PyTorch's, of parameters
CELLS = {"lstm": "lstm_cell", "gru": "gru_cell", "rnn": "rnn_tanh_cell"}


def formed(layers: list[dict[str, Any]], knobs: dict[str, Any], batch: int) -> list[dict[str, Any]]:
    """Return the layers with the number of sequences, and forms by the knobs `sequence`, `time_major`, `packed`."""
    more = {name: knobs.get(name, False) for name in ("time_major", "packed")}
    loops = {"unrolled": False} if knobs.get("sequence") else {}
    return [{**spec, **more, **loops, "batch": batch} for spec in layers]


def axis(spec: dict[str, Any]) -> int:
    """Return the axis of the steps."""
    return 0 if spec.get("time_major") else 1


def module(torch: Any, spec: dict[str, Any]) -> Any:
    """Build a recurrent module, whose second bias is constant where the network has one: zeros, or the forget gate's.

    The constant stands in for a bias that PyTorch's modules cannot do without. A module that packs has the sequences'
    lengths as its attribute `lengths`."""
    kinds = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}
    if spec["cell"] not in kinds:
        raise NotImplementedError("PyTorch's GRU resets after the product with the state")
    kind, steps, run = kinds[spec["cell"]], axis(spec), _loop if spec["unrolled"] else _sequence
    form = "loop" if spec["unrolled"] else "packed" if spec.get("packed") else "sequence"

    class Layer(kind):  # type: ignore[misc, valid-type]
        def forward(self, x: Any) -> Any:
            y, ends = run(torch, spec, self, super().forward, x)
            for name, end in zip(spec["state"], ends):
                getattr(self, name).copy_(end[0].detach())
            return torch.cat(list(ends[0]), 1) if spec["last"] else y

    layer = Layer(spec["in"][0][1], spec["hidden"], batch_first=steps == 1, bidirectional=spec["bidirectional"])
    layer.form, layer.lengths = form, None
    for name in spec["state"]:
        layer.register_buffer(name, torch.zeros(spec["batch"], spec["hidden"]))
    if spec["biases"] == 1:
        for name, bias in layer.named_parameters():
            if name.startswith("bias_hh"):
                torch.nn.init.zeros_(bias.requires_grad_(False))
                bias.data[spec["hidden"] : 2 * spec["hidden"]] = spec["forget"]
    return layer


def _begin(spec: dict[str, Any], layer: Any, x: Any) -> Any:
    """Return the first states h and c, 1 × batch × hidden: those that are carried, or zeros."""
    zeros = x.new_zeros(1, x.shape[1 - axis(spec)], spec["hidden"])
    return tuple(getattr(layer, name).clone()[None] if name in spec["state"] else zeros for name in ("h", "c"))


def _sequence(torch: Any, spec: dict[str, Any], layer: Any, call: Any, x: Any) -> Any:
    """Return all outputs, and the last states h and c by direction, of the module's own forward."""
    rnn, first, lstm = torch.nn.utils.rnn, layer.batch_first, spec["cell"] == "lstm"
    begin = _begin(spec, layer, x) if spec["state"] else None
    if layer.lengths is not None:
        x = rnn.pack_padded_sequence(x, layer.lengths, batch_first=first, enforce_sorted=False)
    y, states = call(x, begin if lstm or begin is None else begin[0])
    if layer.lengths is not None:
        y = rnn.pad_packed_sequence(y, batch_first=first, total_length=spec["in"][0][0])[0]
    return y, states if lstm else (states,)


def _loop(torch: Any, spec: dict[str, Any], layer: Any, call: Any, x: Any) -> Any:
    """Return all outputs, and the last states h and c by direction, of a loop over the cell."""
    cell, steps, outputs, ends = getattr(torch._VF, CELLS[spec["cell"]]), axis(spec), [], []
    for way in ("", "_reverse")[: 1 + spec["bidirectional"]]:
        weights = [getattr(layer, name + way) for name in _FIRST.values()]
        (h,), (c,) = _begin(spec, layer, x)
        states = []
        for at in reversed(x.unbind(steps)) if way else x.unbind(steps):
            if spec["cell"] == "lstm":
                h, c = cell(at, (h, c), *weights)
            else:
                h = cell(at, h, *weights)
            states.append(h)
        outputs.append(torch.stack(states[::-1] if way else states, steps))
        ends.append((h, c))
    return torch.cat(outputs, -1), list(zip(*ends))


def pack(modules: Iterable[Any], ids: Any, knobs: dict[str, Any]) -> None:
    """Give recurrent modules that pack the lengths of the sequences: the ids that are not padding, 0."""
    for layer in modules:
        if knobs.get("packed") and hasattr(layer, "form"):
            layer.lengths = (ids != 0).sum(0 if knobs.get("time_major") else 1)


def form(modules: Iterable[Any]) -> dict[str, str]:
    """Return how the recurrent modules run, for a model's flags; nothing without such modules."""
    layers = [x for x in modules if hasattr(x, "form")]
    if not layers:
        return {}
    forms = sorted({x.form for x in layers})
    return {"recurrent": " and ".join(forms), "major": "batch" if layers[0].batch_first else "time"}
