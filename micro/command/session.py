"""A command from its contests to its end: environment, run file, progress, what is printed, exit code."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.devices import open_device
from kernels.errors import Unavailable, UsageError
from micro.answers import why
from micro.command import environment as machine
from micro.command import names as command_names
from micro.command.outputs import open_outputs, say
from micro.command.progress import Progress
from micro.measuring import replicates
from micro.measuring.canary_history import History
from micro.measuring.checks import Checks, refuse_size
from micro.measuring.runner import Runner
from micro.planning.contest import Budget, Contest
from micro.planning.options import Outputs
from micro.planning.protocol import LONG, WARM
from micro.planning.repeat import Repeat
from micro.planning.request import Plan
from micro.worker.evidence import beside
from micro.worker.process import Workers
from reports import next_run, record, store
from reports.record import Environment, Note, Run
from reports.stats import LOOKS
from reports.units import counted

if TYPE_CHECKING:
    from kernels.devices.base import Device, Limits

REFERENCE = 100e9  # FLOP/s of the processor, which computes what an answer is checked against
LEAST_VISIT = 1e-3  # seconds of a visit on a device that is not called from the compiled loop
LOG = "log"  # topic of the note that says what a library's log held
BESIDE = 4  # visits to ceilings and canaries for each round of a first look, there


@dataclass(frozen=True)
class Session:
    """What every command has: a run file, a runner with its workers, signs of life."""

    environment: Environment
    file: store.RunFile
    runner: Runner
    progress: Progress


@contextmanager
def session(
    module: str,
    devices: Sequence[Device],
    contests: int,
    outputs: Outputs,
    *,
    until: str = "time",
    swept: frozenset[tuple[str, str]] = frozenset(),
    planned: Iterable[str] = (),
) -> Iterator[Session]:
    """Open until the last contest is measured; its workers end with it. The run is told by its first device.
    `planned`: names of all that will be measured. Raises UsageError."""
    with ExitStack() as stack:
        environment = machine.environment(devices, machine.command_line())
        file = open_run_file(outputs.output, environment, outputs.resume, planned)
        stack.callback(file.close)
        history = History(environment.state["machine"])
        stack.callback(history.save)
        workers = stack.enter_context(Workers())
        progress = stack.enter_context(Progress(contests, outputs.quiet))
        seed = int(file.run.environment.state["seed"])
        evidence = beside(outputs.output) if outputs.output else None
        limits = {device.name: device.limits() for device in devices}
        checks = Checks(workers, until, progress.say, evidence, outputs.keep_wrong)
        between = next_run.spreads(file.run.environment)
        runner = Runner(checks, limits, history, Repeat(module, swept), seed, between)
        yield Session(environment, file, runner, progress)


def open_run_file(
    path: Path | None, environment: Environment, resume: bool = False, planned: Iterable[str] = ()
) -> store.RunFile:
    """A run file, or a run that is only kept in memory. `planned`: names of all that will be measured; a run of
    anything else is not gone on with. Raises UsageError."""
    names = "\n".join(planned)
    digest = hashlib.sha256(names.encode()).hexdigest()[:16] if names else None
    environment = replace(environment, state={**environment.state, "plan": digest})
    try:
        file = store.RunFile(path, environment, resume)
    except store.Unreadable as error:
        raise UsageError(str(error)) from None
    begun = file.run.environment
    if begun.state.get("plan") not in (None, digest):
        file.close()
        raise UsageError(f"-o {path}: it holds other contests, {_commands(file.run)}: name another file")
    return file


def _commands(run: Run) -> str:
    """What a run file was begun by, and what would go on with it."""
    return f"from `{run.environment.command}`, and this is `{machine.command_line()}`"


def run(plan: Plan) -> int:
    """Measure a plan and say what came of it; the exit code.

    Where it is interrupted, or the run file is full, it says what came until then. Raises UsageError.
    """
    failed = 0
    with ExitStack() as stack:
        opened = open_outputs(plan.outputs, stack)
        with _opened(plan) as at:
            try:
                measure_plan(at, plan)
                name_kernels(at)
            except (KeyboardInterrupt, SystemExit) as stop:
                failed = 130 if isinstance(stop, KeyboardInterrupt) else int(str(stop.code))
                print(_interrupted(plan, at.file), file=sys.stderr)
            except store.Unwritable as error:
                failed = 1
                print(f"micro.{plan.name}: {error}", file=sys.stderr)
        if at.file.run.contests or not failed:
            failed = say(at.file.run, plan.outputs, opened) or failed
    return failed or int(any(r.status in ("wrong", "failed") for r in at.file.run.results))


def measured(plan: Plan) -> Run:
    """The run of a plan, for a caller in Python. Raises UsageError; what a kernel does is in the results."""
    with _opened(plan) as at:
        measure_plan(at, plan)
        name_kernels(at)
    return at.file.run


def _opened(plan: Plan) -> AbstractContextManager[Session]:
    devices = [_device(name) for name in plan.devices]
    refuse_size(plan.contests, {device.name: device.limits() for device in devices})
    planned = [contest.name for contest in plan.contests]
    return session(
        plan.name, devices, len(plan.contests), plan.outputs, until=plan.until, swept=plan.swept, planned=planned
    )


def _device(name: str) -> Device:
    """The device. Raises UsageError where it is not here."""
    try:
        return open_device(name)
    except Unavailable as error:
        raise UsageError(f"--device {name}: {error}; --device cpu is always here") from None


def measure_plan(at: Session, plan: Plan, others: frozenset[str] = frozenset()) -> float:
    """All contests that are left, and those that its question asks for after them, into the run file; what
    those before them took is off the budget. Seconds left. `others`: contests of other plans in the same file."""
    left = _left(plan, at.file.run, at.file.path)

    def so_far() -> Run:
        return replace(at.file.run, contests=tuple(c for c in at.file.run.contests if c.contest not in others))

    if at.progress.contests == len(plan.contests):
        at.progress.contests = len(left) * plan.replicates
    if plan.log and not any(note.topic == LOG for note in at.file.run.notes):
        at.file.append(Note(LOG, {"sentences": plan.log}))
    if left and not plan.outputs.quiet:
        print(_forecast(left, plan.budget), file=sys.stderr, flush=True)
    taken = sum(done.seconds.get("measuring", 0.0) for done in so_far().contests)
    need = partial(_first_look, limits=at.runner.limits)  # of one run of a contest
    share = sum(map(need, left)) / (sum(map(need, plan.contests)) or 1.0)
    rest = max(plan.budget.seconds - taken, plan.budget.seconds * share)
    kept = plan.kept * rest
    rest = kept + _measure(at, left, replace(plan.budget, seconds=rest - kept), plan.replicates)
    while more := _fresh(plan.refine(so_far()), at.file.run):
        if not kept and rest < plan.replicates * sum(map(need, more)):
            break
        rest = _measure(at, more, replace(plan.budget, seconds=max(rest, 0.0)), plan.replicates)
    sentences = why.answer(plan.why, so_far()) if plan.why else plan.answer(so_far())
    if sentences and sentences not in [note.data.get("sentences") for note in at.file.run.notes]:
        at.file.append(Note("answer", {"sentences": sentences}))
    return rest


def _measure(at: Session, contests: Sequence[Contest], budget: Budget, count: int) -> float:
    """All contests, once or `count` times in fresh processes, each time in another order. Seconds left."""
    if count == 1:
        return measure_all(at, contests, budget)
    left = budget.seconds
    for number, todo in replicates.passes(contests, count, at.file.run, at.runner.seed):
        share = replace(budget, seconds=budget.seconds / count * len(todo) / len(contests))
        fresh = replace(at, runner=at.runner.fresh(number))
        left -= share.seconds - measure_all(fresh, todo, share, partial(replicates.keep, at.file, number))
    taken = replicates.taken(at.file.run)
    for contest in contests:
        at.file.append(replicates.combined([taken[number, contest.name] for number in range(count)]))
    return left


def name_kernels(at: Session) -> None:
    """What ran on a GPU, into the run file: after all that is timed, whose workers end here."""
    if command_names.unnamed(at.file.run):
        at.runner.checks.workers.end()
        if note := command_names.collect(at.file.run):
            at.file.append(note)


def _left(plan: Plan, run: Run, path: Path | None) -> list[Contest]:
    """The contests that a resumed run file does not hold yet. Raises UsageError."""
    for contest in plan.contests:
        whole = [(recorded, plan.replicates) for recorded in run.contests]
        for recorded, count in (*whole, *((recorded, 1) for recorded in replicates.taken(run).values())):
            if recorded.contest == contest.name and (how := _unlike(contest, recorded, count)):
                raise UsageError(f"-o {path}: it holds {contest.name} {how}, {_commands(run)}: name another file")
    done = {contest.contest for contest in run.contests}
    return [contest for contest in plan.contests if contest.name not in done]


def _unlike(contest: Contest, done: record.Contest, count: int) -> str | None:
    """How a record differs from what is asked, a contest of so many runs."""
    if any(result.status in ("planned", "built", "ran") for result in done.results):
        return "stopped by --until"
    if [result.name for result in done.results if result.role == "measured"] != [case.name for case in contest.cases]:
        return "with other cases"
    counts = {max(1, len(comparison.replicates)) for comparison in done.comparisons} - {count}
    return f"of {(other := counts.pop())} run{'s' * (other > 1)}" if counts else None


def _interrupted(plan: Plan, file: store.RunFile) -> str:
    kept = f"they are in {file.path}, --resume goes on" if file.path else "-o FILE would have kept them"
    ended = f"{len(file.run.contests)} of {counted(len(plan.contests), 'contest')} had ended"
    if plan.replicates > 1:
        ended += f", {len(replicates.taken(file.run))} of {plan.replicates * len(plan.contests)} runs of them"
    return f"micro.{plan.name}: interrupted; {ended}: {kept}"


def measure_all(
    at: Session, contests: Sequence[Contest], budget: Budget, keep: Callable[[record.Contest], None] | None = None
) -> float:
    """One contest after another; what one leaves over goes to the later ones. Seconds left. `keep`: where a finished
    one goes, the run file unless said.

    First each gets what its first look takes, then all share the rest, case by case; a budget too small
    for the first looks is shared in their proportion. Seconds left are negative where the last looks took longer.
    """
    needs = [_first_look(contest, at.runner.limits) for contest in contests]
    left, spent = budget.seconds, 0.0
    for i, contest in enumerate(contests):
        at.progress.begin(contest.title)
        rest = left - sum(needs[i:])
        share = len(contest.cases) / sum(len(later.cases) for later in contests[i:])
        seconds = needs[i] + rest * share if rest > 0 else left * needs[i] / sum(needs[i:])
        done = at.runner.run(contest, seconds, budget)
        spent += done.seconds["measuring"]
        left = max(budget.seconds - spent, 0.0)
        (keep or at.file.append)(done)
    return budget.seconds - spent


def _fresh(contests: list[Contest], run: Run) -> list[Contest]:
    """Those that have not been run: one that failed would be asked for again and again."""
    done = {contest.contest for contest in run.contests}
    return [contest for contest in contests if contest.name not in done]


def _forecast(contests: Sequence[Contest], budget: Budget) -> str:
    """What is about to happen: contests, and at most how long."""
    cases = {case for contest in contests for case in contest.cases if not case.skip}
    checks = sum(4 * case.problem.flops / REFERENCE + 8 * case.problem.footprint / 1e9 + 0.1 for case in cases)
    return (
        f"{counted(len(contests), 'contest')} (what is compared, timed in turns) of {counted(len(cases), 'case')} "
        "(a kernel at one size): "
        f"at most {budget.seconds:.0f} s of measuring, about {checks:.0f} s to prepare and check them"
    )


def _first_look(contest: Contest, limits: Mapping[str, Limits]) -> float:
    """Seconds, roughly, by what each case's device is taken to do: eight rounds of every case, warmed up where that is
    done; where visits are made step by step, of the ceilings and the canaries beside them too."""
    total, least = 0.0, 0.05
    for case in contest.cases:
        if case.skip or case.setting.device not in limits:
            continue
        device_limits = limits[case.setting.device]
        call = case.problem.flops / device_limits.flops + case.problem.bytes / device_limits.bandwidth
        total += call * (1 if call > LONG else 1 + WARM)
        if device_limits.visit:
            total += device_limits.visit + max(LEAST_VISIT - call, 0.0)
            least = max(least, LOOKS[0] * BESIDE * (device_limits.visit + LEAST_VISIT))
    return LOOKS[0] * total + least
