"""Variants of a network by common mistakes: other rounding of poolings or padding, frozen statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from macro.networks.base import Network
from macro.networks.layer import Layer, Node
from macro.networks.layers import BatchNorm, Convolution, Pool

ALONE = 5  # layers in which a mistake may be made, of which each is tried by itself


def counts(network: Network) -> dict[str, int]:
    """Return the number of values of each parameter."""
    return {f"{node.name}.{name}": x.count for node in network.nodes for name, x in node.parameters.items()}


def suspects(network: Network) -> Iterator[tuple[str, Network]]:
    """Yield networks with one mistake, each once: in all its layers; then in one, where few may have it."""
    seen = [network.layers]
    for defect, changed in _all(network):
        if changed.layers not in seen:
            seen.append(changed.layers)
            yield defect, changed


def _all(network: Network) -> Iterator[tuple[str, Network]]:
    for defect, change in MISTAKES.items():
        layers = [change(node) for node in network.nodes]
        odd = [i for i, layer in enumerate(layers) if layer != network.layers[i]]
        yield from _with(network, defect, layers)
        for i in odd if 1 < len(odd) <= ALONE else ():
            alone = [*network.layers[:i], layers[i], *network.layers[i + 1 :]]
            yield from _with(network, f"{defect}, in {layers[i].name}", alone)


def _with(network: Network, defect: str, layers: Sequence[Layer]) -> Iterator[tuple[str, Network]]:
    """Yield the network with other layers, where they fit together."""
    with suppress(ValueError):
        changed = replace(network, layers=tuple(layers))
        if counts(changed):  # computing the layers' places raises ValueError
            yield defect, changed


def _frozen(node: Node) -> Layer:
    return replace(node.layer, frozen=True) if isinstance(node.layer, BatchNorm) else node.layer


def _rounds(how: str) -> Callable[[Node], Layer]:
    return lambda node: (
        replace(node.layer, rounding=how) if isinstance(node.layer, Pool) and node.layer.window else node.layer
    )


def _shifted(node: Node) -> Layer:
    """Shift the padding of strides above one, which alone have room for it."""
    layer = node.layer
    if isinstance(layer, Convolution) and layer.stride > 1 and layer.pad:
        return replace(layer, pads=(layer.pad - 1, layer.pad - 1, layer.pad, layer.pad), pad=0)
    return layer


def _same(node: Node) -> Layer:
    """Pad a convolution to its image's size over its stride, the odd zero below and right."""
    layer = node.layer
    if not isinstance(layer, Convolution):
        return layer
    seen = layer.dilation * (layer.kernel - 1) + 1
    pads = []
    for length in node.inputs[0][1:]:
        zeros = max(0, (-(-length // layer.stride) - 1) * layer.stride + seen - length)
        pads.append((zeros // 2, zeros - zeros // 2))
    (top, bottom), (left, right) = pads
    if top == left == bottom == right:
        return replace(layer, pad=top, pads=())
    return replace(layer, pad=0, pads=(top, left, bottom, right))


def _padded(more: int) -> Callable[[Node], Layer]:
    """Return a mistake that pads so many zeros more on each side."""

    def change(node: Node) -> Layer:
        layer = node.layer
        if not isinstance(layer, Convolution) or layer.pads or layer.kernel == 1 or layer.pad + more < 0:
            return layer
        return replace(layer, pad=layer.pad + more)

    return change


def _unpadded(node: Node) -> Layer:
    return replace(node.layer, pad=0, pads=()) if isinstance(node.layer, Convolution) else node.layer


MISTAKES = {
    "frozen batch norm": _frozen,
    "poolings that round up": _rounds("ceil"),
    "poolings that round down": _rounds("floor"),
    "wrong padding (SAME)": _same,
    "wrong padding (more below and right)": _shifted,
    "wrong padding (none)": _unpadded,
    "wrong padding (one more on each side)": _padded(1),
    "wrong padding (one less on each side)": _padded(-1),
}
