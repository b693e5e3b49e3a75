"""A framework's answer from given weights and one batch: losses, gradients and parameters after its first steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.errors import LaunchError
from macro.frameworks import Framework
from macro.networks.base import Network
from macro.processes import job as job_files
from macro.processes.job import Setting
from macro.processes.process import Process

if TYPE_CHECKING:
    from kernels.problem import Array

COUNTS = (1, 10)  # steps after which parameters are compared
PATIENCE = 600.0  # seconds for eleven steps and their gradients


@dataclass(frozen=True)
class Answer:
    """Losses, and arrays by name: `gradient.fc1.weight`, `after10.fc1.weight`. `built`: what its model says it is."""

    framework: str
    identity: dict[str, Any]
    built: dict[str, Any]
    losses: tuple[float, ...]
    arrays: Mapping[str, Array]
    logits: Array | None = None  # of the given weights: the reference's alone

    @property
    def wide(self) -> str | None:
        """What is not in single precision, by its own words or by the arrays it gave."""
        if "32" not in str(self.built.get("dtype")):
            return f"it computes in {self.built.get('dtype')}"
        return next((f"its {name} is {x.dtype}" for name, x in self.arrays.items() if x.itemsize != 4), None)


def ask(
    framework: Framework, network: Network, batch: int, setting: Setting, folder: Path, counts: Sequence[int] = COUNTS
) -> Answer:
    """Run a framework's first steps. Raises SuiteError, also where it answers with something else."""
    import numpy as np

    files = job_files.write_arrays(network, batch, folder)
    job = job_files.write(framework, network, batch, setting, files, folder)
    with Process(framework, job, setting, folder / "equal.log") as process:
        hello, built = process.expect("hello"), process.expect("built")
        if not isinstance(built.get("parameters"), dict):
            raise LaunchError("its work() names no parameters: {name: count}")
        path = str(job.with_suffix(".npz"))
        reply = process.ask(PATIENCE, "equal", do="equal", path=path, steps=list(counts))
        try:
            with np.load(reply["arrays"]) as arrays:
                kept = {name: arrays[name] for name in arrays.files}
        except ValueError as error:  # arrays of Python objects
            raise LaunchError(f"its arrays cannot be read: {error}") from None
        Path(path).unlink()
    logits = kept.pop("logits", None)
    return Answer(framework.name, hello, built, tuple(reply["losses"]), kept, logits)


def relative(got: Array, want: Array) -> float:
    """‖got − want‖ / ‖want‖; ‖got − want‖ where `want` is zero, as of biases that did not move."""
    import numpy as np

    difference, size = norm(got.astype(np.float64) - want.astype(np.float64)), norm(want)
    return difference / size if size else difference


def norm(array: Array) -> float:
    """‖array‖, summed in double."""
    import numpy as np

    return float(np.linalg.norm(array.astype(np.float64)))


def apart(got: float, want: float) -> float:
    """Their relative difference; the difference itself where `want` is zero, as the loss of a network of one class."""
    return abs(got - want) / (abs(want) or 1.0)
