"""At a batch where NumPy would take minutes: against PyTorch, by the bounds that NumPy has at a small one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernels.devices.cpu import cores
from kernels.errors import SuiteError
from macro.equality.answer import Answer, apart, ask, norm, relative
from macro.frameworks import Framework, find
from macro.networks.base import Network
from macro.processes.job import Setting

LARGE = 100e9  # FLOP of a step, above which NumPy is asked at a small batch
SMALL = 2
STEPS = (1,)
RIVAL = "pytorch"


def small(network: Network, batch: int) -> int:
    """The batch at which NumPy is asked."""
    return SMALL if batch > SMALL and network.flops(batch) > LARGE else batch


@dataclass(frozen=True)
class Reference:
    """PyTorch's answer at the timed batch; where it has none, why not."""

    answer: Answer | None
    why: str = ""

    @property
    def words(self) -> str:
        """What a proof by it is called."""
        if self.answer is None:
            return f"; at the timed batch against nothing: {self.why}"
        return f"; at batch {self.answer.built['batch']} against {RIVAL}, loss, norms of gradients, statistics"


def reference(network: Network, batch: int, folder: Path) -> Reference:
    """On all cores: nothing is timed."""
    try:
        return Reference(ask(find(RIVAL), network, batch, Setting(cores()), folder, STEPS))
    except SuiteError as error:
        return Reference(None, f"{RIVAL}: {error}")


def shares(
    framework: Framework,
    network: Network,
    batch: int,
    setting: Setting,
    folder: Path,
    rival: Reference,
    bounds: Mapping[str, float],
) -> dict[str, float]:
    """By name the largest differences over their bounds. Raises SuiteError where it does not run."""
    if rival.answer is None:
        return {}
    if framework.name == RIVAL and not setting.knobs:
        return {}
    want, answer = rival.answer, ask(framework, network, batch, setting, folder, STEPS)
    pairs = enumerate(zip(answer.losses, want.losses, strict=True))
    told = {f"loss {i} at batch {batch}": apart(a, b) / bounds["loss"] for i, (a, b) in pairs}
    for name, array in want.arrays.items():
        theirs = answer.arrays.get(name)
        if name.startswith("gradient.") and theirs is not None:
            told[f"norm of {name} at batch {batch}"] = _norms(norm(theirs), norm(array)) / bounds[name]
        elif theirs is not None and name.partition(".")[2] not in want.built["parameters"]:
            told[f"{name} at batch {batch}"] = relative(theirs, array) / bounds[name]
    return told


def _norms(a: float, b: float) -> float:
    return abs(a - b) / b if b else (math.inf if a else 0.0)
