"""Comparison with PyTorch at large batches, with tolerances measured against NumPy at a small one.

NumPy would take minutes at the timed batch. Tolerances are widened by the change of PyTorch's answer with perturbed
weights: in a larger batch, rounding switches more ReLUs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from kernels.devices.cpu import cores
from kernels.errors import SuiteError
from macro.equality.answer import Answer, Question, answers, apart, norm, relative, right
from macro.frameworks import Framework, find, interpreter
from macro.networks.base import Network
from macro.processes.job import Setting

LARGE = 100e9  # FLOP of a step, above which NumPy runs at a small batch
SMALL = 2
STEPS = (1,)
SEEDS = (1, 2, 3)  # of the perturbations of weights
TWICE = 2.0  # times the difference that a perturbation makes
OFTEN = 8.0  # the same for a gradient's norm at the timed batch: rounding switches none or several ReLUs, and a single
# ReLU at a large pixel moves a bias gradient by a thousandth; a defect moves all gradients by far more
RIVAL = "pytorch"


def small(network: Network, batch: int) -> int:
    """Return the batch at which NumPy runs: SMALL for steps of more than LARGE FLOP."""
    return SMALL if batch > SMALL and network.flops(batch) > LARGE else batch


@dataclass(frozen=True)
class Reference:
    """PyTorch's answer at the timed batch, or the reason `why` it has none."""

    answer: Answer | None
    why: str = ""
    wrong: bool = False  # whether its answer contains NaN or infinity
    off_by: Mapping[str, float] = field(default_factory=dict)  # bounds of gradients' norms, from perturbed weights

    @property
    def conclusive(self) -> bool:
        """True if a later proof could show no more: PyTorch has answered, or is not installed."""
        return self.answer is not None or interpreter(find(RIVAL)) is None

    @property
    def words(self) -> str:
        """Text of a proof on the comparison at the timed batch."""
        if self.answer is None:
            return f"; not compared at the timed batch: {self.why}"
        compared = "outputs, loss, norms of gradients, statistics"
        return f"; at batch {self.answer.built['batch']} against {RIVAL}, {compared}"


def reference(network: Network, batch: int, folder: Path) -> Reference:
    """Return PyTorch's answer at the timed batch, computed untimed on all cores."""
    plain = Question(find(RIVAL), network, batch, Setting(cores()), folder, STEPS)
    try:
        answer, *others = map(right, answers([plain, *moved(plain)]))
    except SuiteError as error:
        return Reference(None, f"{RIVAL}: {error}")
    if not all(math.isfinite(norm(array)) for array in answer.arrays.values()):
        return Reference(None, f"{RIVAL}: the answer is not finite", wrong=True)
    off_by = {
        name: OFTEN * max(_norms(norm(other.arrays[name]), norm(array)) for other in others)
        for name, array in answer.arrays.items()
        if name.startswith("gradient.")
    }
    usual_ones = {name: max(x, usual(name, off_by, answer.built["parameters"])) for name, x in off_by.items()}
    return Reference(answer, off_by=usual_ones)


def moved(plain: Question) -> list[Question]:
    """Return the same question with perturbed weights, once per seed."""
    return [replace(plain, seed=seed) for seed in SEEDS]


def usual(name: str, off_by: Mapping[str, float], parameters: Mapping[str, Any]) -> float:
    """Return the median effect of perturbed weights on arrays of the kind of `name`; 0 for other arrays."""
    when, _, what = name.partition(".")
    alike = [
        x for other, x in off_by.items() if other.partition(".")[0] == when and other.partition(".")[2] in parameters
    ]
    return median(alike) if what in parameters else 0.0


def asks(framework: Framework, setting: Setting, rival: Reference) -> bool:
    """Return whether a framework is compared with PyTorch at the timed batch; PyTorch itself is not."""
    itself = framework.name == RIVAL and not setting.knobs and setting.device == "cpu"
    return rival.answer is not None and not itself


def shares(
    answer: Answer, network: Network, batch: int, rival: Reference, bounds: Mapping[str, float]
) -> dict[str, float]:
    """Return the ratio of each difference from the rival to its bound, by name of the compared quantity."""
    want = rival.answer
    assert want is not None
    # A statistic sums more numbers at the timed batch: rounding of sequential sums, as in TensorFlow, grows with the
    # root of the count (Higham, Accuracy and Stability, 2002, 2.8).
    longer = math.sqrt(batch / small(network, batch))
    ratios = {f"loss {i} at batch {batch}": share / bounds["loss"] for i, share in enumerate(apart(answer, want))}
    for name, array in want.arrays.items():
        theirs = answer.arrays[name]
        if theirs.shape != array.shape:
            ratios[f"{name} at batch {batch}, of another shape,"] = math.inf
        elif name.startswith("gradient."):
            bound = max(bounds[name], rival.off_by.get(name, 0.0))
            ratios[f"norm of {name} at batch {batch}"] = _norms(norm(theirs), norm(array)) / bound
        elif name.partition(".")[2] not in want.built["parameters"]:
            ratios[f"{name} at batch {batch}"] = relative(theirs, array) / (bounds[name] * longer)
    return ratios


def _norms(a: float, b: float) -> float:
    return abs(a - b) / b if b else (math.inf if a else 0.0)
