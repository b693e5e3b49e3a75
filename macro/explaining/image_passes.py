"""The benchmark of a layer's pass over images: pooling, normalization and dropout."""

from __future__ import annotations

from typing import Any

from kernels.ops.pooling.problem import STRIDE
from macro.networks.layer import Node, size
from macro.networks.layers import BatchNorm, Dropout, LocalResponseNorm, Pool

POOLS = {"max": "max", "average": "avg"}
WINDOWS = (2, 3)
LRN = (5, 0.75, 2.0)  # size, beta and k of what is measured
LEAST = 0.01  # share of a dropout that is measured


def options(node: Node, role: str, batch: int) -> dict[str, Any] | None:
    """Return options of `python -m micro.elementwise`; None for a layer, or sizes, that it lacks.
    A gradient is measured with the forward pass before it (--phase step), dropout always with both."""
    layer, given = node.layer, node.inputs[0]
    if role not in ("forward", "gradient"):
        return None
    if isinstance(layer, Dropout) and layer.share >= LEAST:
        return {"units": batch * size(given), "rate": layer.share}
    if len(given) != 3 or given[1] != given[2]:
        return None
    both = {"phase": "step"} if role == "gradient" else {}
    sizes = {"images": batch, "maps": given[0], "size": given[1]}
    if isinstance(layer, BatchNorm):
        return {**sizes, **({"mode": "frozen"} if layer.frozen else {}), **both}
    if isinstance(layer, LocalResponseNorm) and (layer.size, layer.beta, layer.k) == LRN:
        return {**sizes, "method": "lrn", **both}
    unpadded = isinstance(layer, Pool) and layer.rounding == "floor" and not any(layer.pads)
    if isinstance(layer, Pool) and unpadded and layer.window in WINDOWS and layer.stride == STRIDE:
        sizes = {"images": batch, "channels": given[0], "size": given[1], "window": layer.window}
        return {**sizes, "pool": POOLS[layer.mode], **both}
    return None
