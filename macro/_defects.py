"""What goes wrong when a network is written down again, by name: each as the reference with that defect."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.errors import SuiteError
from macro._job import Setting
from macro.frameworks import find
from macro.networks.base import Network

if TYPE_CHECKING:
    from macro._equal import Answer

NAMES = {
    "relu-logits": "ReLU on the logits",
    "double-softmax": "double log-softmax",
    "sum-loss": "mean for sum in the loss",
    "unit-gain": "unit-gain momentum",
}
ALIKE = 1e-3  # relative: far above rounding, far below what any of these defects does


def name(answer: Answer, network: Network, batch: int, folder: Path) -> str | None:
    """The defect whose reference gives this answer; None where it is none of these."""
    built = answer.built["parameters"]
    wanted = {f"{layer.name}.{kind}" for layer in network.layers for kind in ("weight", "bias")}
    if wanted - set(built):
        return f"a dropped layer ({', '.join(sorted({x.partition('.')[0] for x in wanted - set(built)}))})"
    if extra := set(built) - wanted:
        return f"trainable input ({', '.join(sorted(extra))})" if any("input" in x for x in extra) else None
    if "64" in str(answer.built.get("dtype")):
        return "missing input cast (float64)"
    from macro._equal import ask

    for defect, told in NAMES.items():
        try:
            wrong = ask(find("numpy"), network, batch, Setting(knobs={"defect": defect}), folder)
        except SuiteError:
            continue
        if _alike(answer, wrong):
            return told
    return None


def _alike(a: Answer, b: Answer) -> bool:
    from macro._equal import _relative

    losses = all(math.isclose(x, y, rel_tol=ALIKE) for x, y in zip(a.losses, b.losses, strict=True))
    return losses and all(
        _relative(a.arrays[n], array) < ALIKE for n, array in b.arrays.items() if n in a.arrays
    )
