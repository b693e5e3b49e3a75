"""A framework's answer from given weights and one batch: losses, gradients, parameters after steps."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.devices import kind_of
from kernels.errors import LaunchError, SuiteError
from macro.frameworks import Framework
from macro.networks.base import Network
from macro.networks.layer import size
from macro.processes import job as job_files
from macro.processes.ahead import Start, ahead
from macro.processes.job import Setting
from macro.processes.process import Process

if TYPE_CHECKING:
    from kernels.problem import Array

COUNTS = (1, 10)  # steps after which parameters are compared
MOVED = 2.0**-20  # relative perturbation of weights, in answers with a seed: sixteen units in the last place
ITSELF = 1.5e9  # bytes that a framework takes beside its arrays, at most
PATIENCE = 1200.0  # seconds for eleven steps and their gradients


@dataclass(frozen=True)
class Answer:
    """Losses and arrays of a framework's first steps."""

    framework: str
    identity: dict[str, Any]
    built: dict[str, Any]  # the adapter's report of its model: dtype, batch, parameters
    losses: tuple[float, ...]
    arrays: Mapping[str, Array]  # `outputs` of the given weights, `gradient.fc1.weight`, `after10.fc1.weight`, …

    @property
    def wide(self) -> str | None:
        """First deviation from single precision in the model's report or the arrays; None if there is none."""
        if "32" not in str(self.built.get("dtype")):
            return f"computes in {self.built.get('dtype')}"
        return next((f"{name} is {x.dtype}" for name, x in self.arrays.items() if x.itemsize != 4), None)


@dataclass(frozen=True)
class Question:
    """A request for a framework's first steps."""

    framework: Framework
    network: Network
    batch: int
    setting: Setting
    folder: Path
    counts: Sequence[int] | None = COUNTS  # steps after which parameters are returned; None: no step is taken
    seed: int | None = None  # of the perturbation of its weights; None: the given weights


def ask(
    framework: Framework, network: Network, batch: int, setting: Setting, folder: Path, counts: Sequence[int] = COUNTS
) -> Answer:
    """Run a framework's first steps and return its answer. Raises SuiteError if it fails."""
    (answer,) = answers([Question(framework, network, batch, setting, folder, counts)])
    return right(answer)


def right(answer: Answer | SuiteError) -> Answer:
    """Return the answer, or raise it if it is a SuiteError."""
    if isinstance(answer, SuiteError):
        raise answer
    return answer


def answers(questions: Sequence[Question]) -> Generator[Answer | SuiteError, None, None]:
    """Yield the answer or error for each question, in order; processes run ahead, several at once."""
    with closing(begun(questions)) as processes:
        for question, process in zip(questions, processes, strict=True):
            answer: Answer | SuiteError
            try:
                answer = process if isinstance(process, SuiteError) else _read(question, process)
            except SuiteError as error:
                answer = error
            if isinstance(process, Process):
                process.close()  # frees its memory
            yield answer


def takes(network: Network, batch: int) -> float:
    """Estimate the peak bytes of a framework's process: copies of parameters, outputs and gradients."""
    outputs = batch * sum(size(node.output) for node in network.nodes)
    return 4.0 * (8 * network.parameters + 4 * outputs) + ITSELF


def begun(questions: Sequence[Question]) -> Generator[Process | SuiteError, None, None]:
    """Yield the process or error for each question, in order; processes run ahead, several at once."""
    starts = []
    for question in questions:
        # Compiling for a GPU takes several cores, and autotuning kernels needs an idle machine.
        alone = question.framework.chooses or kind_of(question.setting.device).undivided
        held = takes(question.network, question.batch)
        starts.append(Start(partial(_begun, question), question.setting.threads, held, alone))
    return ahead(starts)


def _begun(question: Question) -> Process:
    """Start a process and, unless `counts` is None, request its answer. Raises SuiteError."""
    framework, network, batch, steps = question.framework, question.network, question.batch, question.counts
    folder = question.folder
    if question.seed is not None:
        folder = job_files.moved(network, batch, folder, MOVED, question.seed)
    job = job_files.write(framework, network, batch, question.setting, folder, masks=steps is not None)
    process = Process(framework, job, question.setting, job.with_suffix(".log"))
    if steps is not None:
        process.send({"do": "equal", "path": str(job.with_suffix(".npz")), "steps": list(steps)})
    return process


def _read(question: Question, process: Process) -> Answer:
    """Read the answer of a process. Raises SuiteError."""
    import numpy as np

    hello, built = process.expect("hello"), process.expect("built")
    if not isinstance(built.get("parameters"), dict):
        raise LaunchError("its work() returns no parameters: {name: count}")
    reply = process.expect("equal", PATIENCE)
    path = Path(reply["arrays"])
    try:
        with np.load(path) as arrays:
            kept = {name: arrays[name] for name in arrays.files}
    except ValueError as error:  # arrays of Python objects
        raise LaunchError(f"its answer's arrays cannot be read: {error}") from None
    path.unlink()
    if question.seed is not None:
        shutil.rmtree(path.parent)  # a gigabyte for a large network
    return Answer(question.framework.name, hello, built, tuple(reply["losses"]), kept)


def relative(got: Array, want: Array) -> float:
    """Return ‖got − want‖ / ‖want‖, or ‖got − want‖ if `want` is zero, such as an unchanged bias."""
    import numpy as np

    difference, size = norm(got.astype(np.float64) - want.astype(np.float64)), norm(want)
    return difference / size if size else difference


def norm(array: Array) -> float:
    """Return the Euclidean norm of an array, computed in double precision."""
    import numpy as np

    return float(np.linalg.norm(array.astype(np.float64)))


def apart(got: Answer, want: Answer) -> list[float]:
    """Return differences of losses, relative to the larger of the wanted loss and the first wanted loss."""
    pairs = zip(got.losses, want.losses, strict=True)
    return [abs(a - b) / (max(abs(b), abs(want.losses[0])) or 1.0) for a, b in pairs]
