"""A command from its contests to its end: environment, run file, progress, what is printed, exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kernels.devices import open_device
from kernels.errors import UsageError
from micro import _machine
from micro._canary import History
from micro._host import LONG, WARM
from micro._plan import Budget, Contest
from micro._progress import Progress
from micro._run import Runner, refuse_size
from micro._worker import Workers
from reports import formats, store
from reports.record import Environment, Note, Run
from reports.stats import LOOKS

if TYPE_CHECKING:
    from kernels.devices.base import Device

RATE, BANDWIDTH = 100e9, 20e9  # of one core, for a first guess
EXPORTS = ("json", "csv", "markdown")


def run(
    name: str,
    contests: Sequence[Contest],
    budget: Budget,
    arguments: argparse.Namespace,
    answer: Callable[[Run], list[str]] = lambda run: [],
    refine: Callable[[Run], list[Contest]] = lambda run: [],
) -> int:
    """Measure the contests, and those that `refine` asks for after them, and say what came of it.

    Raises UsageError.
    """
    device = open_device(arguments.device)
    refuse_size(contests, device.limits())
    with ExitStack() as stack:
        outputs = _open_exports(arguments, stack)
        environment = _machine.environment(device, _machine.command_line())
        file = open_run_file(arguments.output, environment)
        stack.callback(file.close)
        _measure(name, contests, budget, arguments, device, file, refine)
        said = answer(file.run)
        if said:
            file.append(Note("answer", {"sentences": said}))
        _print(file.run, arguments, outputs)
    if arguments.output:
        print(f"run file: {arguments.output}", file=_for_people(arguments))
    return 1 if any(r.status in ("wrong", "failed") for r in file.run.results) else 0


def _measure(
    name: str,
    contests: Sequence[Contest],
    budget: Budget,
    arguments: argparse.Namespace,
    device: Device,
    file: store.RunFile,
    refine: Callable[[Run], list[Contest]],
) -> None:
    """All contests into the run file, with workers that end here."""
    with ExitStack() as stack:
        seed = int(file.run.environment.state["seed"])
        history = History(file.run.environment.state["machine"])
        stack.callback(history.save)
        workers = stack.enter_context(Workers(arguments.device))
        progress = stack.enter_context(Progress(len(contests), arguments.quiet))
        if not arguments.quiet:
            print(_forecast(contests, budget), file=sys.stderr, flush=True)
        runner = Runner(workers, device.limits(), history, arguments.until, progress.say, name, seed)
        left = measure_all(runner, contests, budget, file, progress)
        while left > 0 and (more := _fresh(refine(file.run), file.run)):
            left = measure_all(runner, more, replace(budget, seconds=left), file, progress)


def measure_all(
    runner: Runner, contests: Sequence[Contest], budget: Budget, file: store.RunFile, progress: Progress
) -> float:
    """One contest after another; what one leaves over goes to the later ones. Seconds left.

    First each gets what its first look takes, then all share the rest, case by case; a budget too small
    for the first looks is shared in their proportion.
    """
    needs = [_first_look(contest) for contest in contests]
    left = budget.seconds
    for i, contest in enumerate(contests):
        progress.begin(contest.name)
        rest = left - sum(needs[i:])
        share = len(contest.cases) / sum(len(later.cases) for later in contests[i:])
        seconds = needs[i] + rest * share if rest > 0 else left * needs[i] / sum(needs[i:])
        done = runner.run(contest, seconds, budget)
        left = max(left - done.seconds["measuring"], 0.0)
        file.append(done)
    return left


def _fresh(contests: list[Contest], run: Run) -> list[Contest]:
    """Those that have not been run: one that failed would be asked for again and again."""
    known = {contest.contest for contest in run.contests}
    return [contest for contest in contests if contest.name not in known]


def _forecast(contests: Sequence[Contest], budget: Budget) -> str:
    """What is about to happen: contests, and at most how long."""
    cases = {case for contest in contests for case in contest.cases if not case.skip}
    checks = sum(4 * case.problem.flops / RATE + 8 * case.problem.footprint / 1e9 + 0.1 for case in cases)
    return (
        f"{len(contests)} contests of {len(cases)} cases: at most {budget.seconds:.0f} s of measuring, "
        f"about {checks:.0f} s to prepare and check them"
    )


def _first_look(contest: Contest) -> float:
    """Seconds, roughly: eight rounds of every case, warmed up where that is done."""
    total = 0.0
    for case in contest.cases:
        call = case.problem.flops / RATE + case.problem.bytes / BANDWIDTH
        total += 0.0 if case.skip else call * (1 if call > LONG else 1 + WARM)
    return LOOKS[0] * total + 0.05


def open_run_file(path: Path | None, environment: Environment) -> store.RunFile:
    """A new run file, or one that is only kept in memory. Raises UsageError."""
    try:
        return store.RunFile(path, environment)
    except store.Unreadable as error:
        raise UsageError(str(error)) from None


def _open_exports(arguments: argparse.Namespace, stack: ExitStack) -> dict[str, IO[str]]:
    """Opened before anything is measured, so that a wrong path costs nothing."""
    opened: dict[str, IO[str]] = {}
    for kind in EXPORTS:
        path = getattr(arguments, kind)
        if path is None:
            continue
        if path == "-":
            if any(stream is sys.stdout for stream in opened.values()):
                raise UsageError(f"--{kind} -: another format already goes to stdout; name a file")
            opened[kind] = sys.stdout
            continue
        try:
            opened[kind] = stack.enter_context(Path(path).open("w"))
        except OSError as error:
            raise UsageError(
                f"--{kind} {path}: {error.strerror}; name a file in a folder that is there"
            ) from None
    return opened


def _for_people(arguments: argparse.Namespace) -> IO[str]:
    taken = any(getattr(arguments, kind) == "-" for kind in EXPORTS)
    return sys.stderr if taken else sys.stdout


def _print(run: Run, arguments: argparse.Namespace, outputs: dict[str, IO[str]]) -> None:
    people = _for_people(arguments)
    formats.write("text", run, people, verbose=arguments.verbose)
    for kind, stream in outputs.items():
        formats.write(kind, run, stream)
