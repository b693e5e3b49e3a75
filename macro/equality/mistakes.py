"""Variants of a network with a common mistake: wrong pooling rounding or padding, frozen batch norm, another cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

from macro.networks.base import Network
from macro.networks.layer import Layer, Node
from macro.networks.layers import BatchNorm, Convolution, Pool, Recurrent

Fields: TypeAlias = Mapping[str, Any]
ALONE = 5  # most affected layers for which a mistake is also tried in each layer alone


def counts(network: Network) -> dict[str, int]:
    """Return the number of elements of each parameter, by name `layer.parameter`."""
    return {f"{node.name}.{name}": x.count for node in network.nodes for name, x in node.parameters.items()}


def suspects(network: Network) -> Iterator[tuple[str, Network]]:
    """Yield distinct networks with one mistake: in all its layers, then in each, if ALONE or fewer."""
    seen = [network.layers]
    for defect, changed in _all(network):
        if changed.layers not in seen:
            seen.append(changed.layers)
            yield defect, changed


def _all(network: Network) -> Iterator[tuple[str, Network]]:
    for defect, (kind, wrong) in MISTAKES.items():
        layers = [
            replace(x.layer, **wrong(x.layer, x)) if isinstance(x.layer, kind) else x.layer for x in network.nodes
        ]
        odd = [i for i, layer in enumerate(layers) if layer != network.layers[i]]
        yield from _with(network, defect, layers)
        for i in odd if 1 < len(odd) <= ALONE else ():
            alone = [*network.layers[:i], layers[i], *network.layers[i + 1 :]]
            yield from _with(network, f"{defect}, in {layers[i].name}", alone)


def _with(network: Network, defect: str, layers: Sequence[Layer]) -> Iterator[tuple[str, Network]]:
    """Yield the network with these layers; nothing if they do not fit together."""
    with suppress(ValueError):
        changed = replace(network, layers=tuple(layers))
        if counts(changed):  # computing the layers' places raises ValueError
            yield defect, changed


def in_sequences(network: Network) -> Mapping[str, Fields]:
    """Return NumPy's knobs for mistakes in a network of sequences, by name; {} for other networks."""
    return SEQUENCES if any(isinstance(x, Recurrent) for x in network.layers) else {}


def _other_reset(layer: Recurrent, node: Node) -> Fields:
    """Reset the state before the product instead of behind it, or the other way around."""
    return {"cell": {"gru": "gru-before", "gru-before": "gru"}.get(layer.cell, layer.cell)}


def _padded(more: int) -> Callable[[Convolution, Node], Fields]:
    """Return a mistake that pads each side by `more` additional zeros."""
    return lambda layer, node: (
        {} if layer.pads or layer.kernel == 1 or layer.pad + more < 0 else {"pad": layer.pad + more}
    )


def _shifted(layer: Convolution, node: Node) -> Fields:
    """Pad a strided convolution by one row and column less above and left than below and right."""
    pad = layer.pad
    return {"pads": (pad - 1, pad - 1, pad, pad), "pad": 0} if layer.stride > 1 and pad else {}


def _same(layer: Convolution, node: Node) -> Fields:
    """Pad as TensorFlow's SAME: output size ⌈input/stride⌉, an odd zero below and right."""
    seen = layer.dilation * (layer.kernel - 1) + 1
    pads = []
    for length in node.inputs[0][1:]:
        zeros = max(0, (-(-length // layer.stride) - 1) * layer.stride + seen - length)
        pads.append((zeros // 2, zeros - zeros // 2))
    (top, bottom), (left, right) = pads
    if top == left == bottom == right:
        return {"pad": top, "pads": ()}
    return {"pad": 0, "pads": (top, left, bottom, right)}


MISTAKES: dict[str, tuple[type[Layer], Callable[[Any, Node], Fields]]] = {
    "frozen batch norm": (BatchNorm, lambda layer, node: {"frozen": True}),
    "poolings that round up": (Pool, lambda layer, node: {"rounding": "ceil"} if layer.window else {}),
    "poolings that round down": (Pool, lambda layer, node: {"rounding": "floor"} if layer.window else {}),
    "wrong padding (SAME)": (Convolution, _same),
    "wrong padding (more below and right)": (Convolution, _shifted),
    "wrong padding (none)": (Convolution, lambda layer, node: {"pad": 0, "pads": ()}),
    "wrong padding (one more on each side)": (Convolution, _padded(1)),
    "wrong padding (one less on each side)": (Convolution, _padded(-1)),
    "wrong reset of the GRU": (Recurrent, _other_reset),
    "missing forget bias": (Recurrent, lambda layer, node: {"forget": 0.0} if layer.forget else {}),
    "forget bias of 1": (
        Recurrent,
        lambda layer, node: {} if layer.forget or layer.cell != "lstm" else {"forget": 1.0},
    ),
}  # the kind of layer, and the fields that are wrong
SEQUENCES: Mapping[str, Fields] = {
    "swapped axes (batch and steps)": {"mistake": "swapped"},
    "length off by one (without the last step)": {"mistake": "short"},
    "state not reset between passes": {"mistake": "carried"},
}
