"""A step of AlexNet-S in the form of the trace that the authors of arXiv 1608.07249 kept, with theirs beside."""

from __future__ import annotations

from collections.abc import Callable

from reports.attribution import aligned
from reports.explanation import Cell, Explanation

NETWORK = "alexnet-s"
THEIRS = "TensorFlow 0.11 on a GTX 980, batch 16: 55.2 ms of kernels in 60.0 ms a step; its images were trained too"
OUTSIDE = "Outside of its kernels: 1.67 ms of images copied in, 1.63 ms of their gradient out; here they lie in memory."
FC6 = (1.37, 3.73)  # ms of its weights' gradient, and of their update


PRODUCT = ("convolution", "gemm", "packing")


def _product(cell: Cell, layers: str) -> bool:
    return cell.row.startswith(layers) and cell.column in PRODUCT


# Share of all kernels' time in the trace, and which cells are that here; a cell is of the first that takes it.
ITEMS: tuple[tuple[str, float, Callable[[Cell], bool]], ...] = (
    ("update", 0.100, lambda x: all(name.endswith(" update") for name in x.members)),
    ("layouts changed", 0.111, lambda x: x.row == "layout" or x.column == "layout reorder"),
    ("gradient of the images", 0.037, lambda x: x.row.startswith("conv1 dgrad")),
    (
        "conv2 by FFT",
        0.121,
        lambda x: _product(x, "conv") and any("fft" in (name or "").lower() for name in x.seen.values()),
    ),
    ("convolutions", 0.329, lambda x: _product(x, "conv")),
    (
        "fc, gradients of weights",
        0.035,
        lambda x: _product(x, "fc") and all(name.endswith(" wgrad") for name in x.members),
    ),
    ("fc, other products", 0.111, lambda x: _product(x, "fc")),
    ("ReLU, bias, pooling", 0.066, lambda x: x.column in ("element-wise", "pooling")),
    ("memory from the system", 0.0, lambda x: x.column == "OS memory"),
)
REST = "the rest"


def lines(explained: Explanation) -> list[str]:
    """Shares of a step on both sides, beside theirs; none for another network or phase."""
    if explained.network.partition(":")[0] != NETWORK or explained.phase != "step":
        return []
    shares = {name: [0.0, 0.0] for name in [*(name for name, _, _ in ITEMS), REST]}
    for cell in explained.cells:
        item = next((name for name, _, takes in ITEMS if takes(cell)), REST)
        for i, side in enumerate("ab"):
            shares[item][i] += cell.seconds(side) / explained.step[side]
    for i in range(2):  # with what no cell has
        shares[REST][i] = 1 - sum(own[i] for name, own in shares.items() if name != REST)
    then = {name: share for name, share, _ in ITEMS}
    then[REST] = 1 - sum(then.values())
    rows = [[name, f"{then[name]:.1%}", *(f"{x:.1%}" for x in own)] for name, own in shares.items()]
    table = aligned(["share of a step", "theirs", explained.a, explained.b], rows, left=1)
    return [f"In the form of its authors' trace ({THEIRS}):", *table, OUTSIDE, _update(explained)]


def _update(explained: Explanation) -> str:
    """How dear the update of the largest layer is beside its gradient."""
    words = [f"{FC6[1] / FC6[0]:.1f} times in theirs"]
    for side, name in (("a", explained.a), ("b", explained.b)):
        cells = [x for x in explained.cells if x.seconds(side)]
        update, gradient = (
            sum(x.seconds(side) for x in cells if f"fc6 {role}" in x.members) for role in ("update", "wgrad")
        )
        both = any({"fc6 wgrad", "fc6 dgrad"} <= set(x.members) for x in cells)
        if update and gradient:
            words.append(f"{update / gradient:.1f} times in {name}{' (of both its gradients)' if both else ''}")
    return f"The update of fc6 takes, of what the gradient of its weights takes: {', '.join(words)}."
