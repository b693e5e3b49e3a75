"""A command from its contests to its end: environment, run file, progress, printed answer, exit code."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.devices import open_device
from kernels.errors import Unavailable, UsageError, stop_code
from micro.answers import why
from micro.command import environment as machine
from micro.command import forecast
from micro.command import names as command_names
from micro.command.outputs import Progress, open_outputs, say
from micro.findings.ratios import few_rounds, ratios
from micro.measuring import replicates
from micro.measuring.canary_history import History
from micro.measuring.checks import Checks, refuse_size
from micro.measuring.runner import Runner
from micro.planning.contest import Budget, Contest
from micro.planning.options import Outputs
from micro.planning.repeat import Repeat
from micro.planning.request import Plan
from micro.worker.evidence import beside
from micro.worker.process import Workers
from reports import gate, next_run, record, store
from reports.record import Environment, Note, Run
from reports.units import counted

if TYPE_CHECKING:
    from kernels.devices.base import Device

LOG = "log"  # topic of the note on the contents of a library's log
ANSWER, LACKS = "answer", "lacks"  # topics: a plan's answer, and what is uncertain or was not measured


@dataclass(frozen=True)
class Session:
    """State of a measuring command: environment, run file, runner with its workers, progress display."""

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
    earlier: Checks | None = None,
) -> Iterator[Session]:
    """Yield a session, whose run file, workers and progress display are closed at the end.

    Workers of `earlier` checks go on. The first device names the run's machine. `planned`: names of all contests that
    will be measured. Raises UsageError."""
    with ExitStack() as stack:
        environment = machine.environment(devices, machine.command_line())
        file = open_run_file(outputs.output, environment, outputs.resume, planned)
        stack.callback(file.close)
        history = History(environment.state["machine"])
        stack.callback(history.save)
        known = earlier or Checks(stack.enter_context(Workers()))
        for case in [case for case, outcome in known.outcomes.items() if outcome.status != "ran"]:
            del known.outcomes[case]  # a case that failed in another plan may succeed here
        progress = stack.enter_context(Progress(contests, outputs.quiet))
        seed = int(file.run.environment.state["seed"])
        evidence = beside(outputs.output) if outputs.output else None
        limits = {device.name: device.limits() for device in devices}
        checks = replace(known, until=until, progress=progress.say, evidence=evidence, keep_wrong=outputs.keep_wrong)
        between = next_run.spreads(file.run.environment)
        runner = Runner(checks, limits, history, Repeat(module, swept), seed, between)
        yield Session(environment, file, runner, progress)


def open_run_file(
    path: Path | None, environment: Environment, resume: bool = False, planned: Iterable[str] = ()
) -> store.RunFile:
    """Open a run file, or one in memory only if `path` is None.

    `planned`: names of all contests that will be measured. Raises UsageError, also if the file was begun with other
    contests."""
    digest = _digest(planned)
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


def _digest(planned: Iterable[str]) -> str | None:
    """Return a digest of contests' names; None without names."""
    names = "\n".join(planned)
    return hashlib.sha256(names.encode()).hexdigest()[:16] if names else None


def _commands(run: Run) -> str:
    """Format the command that began a run file and the command that would resume it."""
    return f"from `{run.environment.command}`; this command is `{machine.command_line()}`"


def run(plan: Plan) -> int:
    """Measure a plan and print its answer; return the exit code.

    After an interrupt, or if the run file cannot be written, only the rounds until then count. Raises UsageError."""
    failed = 0
    with ExitStack() as stack:
        opened = open_outputs(plan.outputs, stack)
        with _opened(plan) as at:
            try:
                measure_plan(at, plan)
                name_kernels(at)
            except (KeyboardInterrupt, SystemExit) as stop:
                failed = stop_code(stop)
                print(_interrupted(plan, at.file), file=sys.stderr)
            except store.Unwritable as error:
                failed = 1
                print(f"micro.{plan.name}: {error}", file=sys.stderr)
        if at.file.run.contests or not failed:
            failed = say(at.file.run, plan.outputs, opened) or failed
    return failed or int(any(r.status in ("wrong", "failed") for r in at.file.run.results)) or gate.code(at.file.run)


def measured(plan: Plan, earlier: Checks | None = None) -> Run:
    """Measure a plan for a caller in Python. Raises UsageError; failures of kernels are in the results."""
    with _opened(plan, earlier) as at:
        measure_plan(at, plan)
        name_kernels(at)
    return at.file.run


def _opened(plan: Plan, earlier: Checks | None = None) -> AbstractContextManager[Session]:
    devices = [_device(name) for name in plan.devices]
    refuse_size(plan.contests, {device.name: device.limits() for device in devices})
    planned = [contest.name for contest in plan.contests]
    return session(
        plan.name,
        devices,
        len(plan.contests),
        plan.outputs,
        until=plan.until,
        swept=plan.swept,
        planned=planned,
        earlier=earlier,
    )


def _device(name: str) -> Device:
    """Open the device. Raises UsageError where it is not here."""
    try:
        return open_device(name)
    except Unavailable as error:
        raise UsageError(f"--device {name}: {error}; --device cpu is always available") from None


def measure_plan(at: Session, plan: Plan, others: frozenset[str] = frozenset(), *, leaves: bool = True) -> float:
    """Measure a plan's remaining contests, then those of its question's `refine`; return seconds left.

    Records go into the run file. Time that contests in the file took is taken off the budget. `others`: names of
    other plans' contests in this file; `leaves`: leave out contests without time for their fewest rounds."""
    left = _left(plan, at.file.run, at.file.path)

    def so_far() -> Run:
        return replace(at.file.run, contests=tuple(c for c in at.file.run.contests if c.contest not in others))

    if at.progress.contests == len(plan.contests):
        at.progress.contests = len(left) * plan.replicates
    if plan.log and not any(note.topic == LOG for note in at.file.run.notes):
        at.file.append(Note(LOG, {"sentences": plan.log}))
    if left and not plan.outputs.quiet:
        print(forecast.announced(left, plan.budget), file=sys.stderr, flush=True)
    taken = sum(done.seconds.get("measuring", 0.0) for done in _ended(so_far()))
    need = partial(forecast.first_look, limits=at.runner.limits)  # of one run of a contest
    share = sum(map(need, left)) / (sum(map(need, plan.contests)) or 1.0)
    rest = max(plan.budget.seconds - taken, plan.budget.seconds * share)
    kept = plan.kept * rest
    rest = kept + _measure(at, left, replace(plan.budget, seconds=rest - kept), plan.replicates, leaves=leaves)
    while more := _fresh(plan.refine(so_far()), at.file.run):
        if not kept and rest < plan.replicates * sum(map(need, more)):
            break
        rest = _measure(at, more, replace(plan.budget, seconds=max(rest, 0.0)), plan.replicates)
    _say(at, plan, so_far())
    return rest


def answered(plan: Plan, run: Run) -> list[str]:
    """Return the sentences that answer a plan's question, by default all ratios."""
    return why.answer(plan.why, run) if plan.why else (plan.answer or ratios)(run)


def _say(at: Session, plan: Plan, run: Run) -> None:
    """Write the answer, and what is uncertain or was not measured, into the run file.

    The last note of a plan and topic is valid."""
    if plan.gate:
        at.file.append(gate.note(gate.of_variants(run, plan.gate.share, plan.gate.baseline, plan.gate.contender)))
    sentences = answered(plan, run)
    lacks = [*few_rounds(run), *forecast.remedy(plan, run, at.runner.limits)]
    by_topic = {ANSWER: sentences, LACKS: lacks}
    for topic, lines in by_topic.items():
        earlier = [x.data["sentences"] for x in at.file.run.notes if x.topic == topic and of_plan(x, plan)]
        if lines != (earlier[-1] if earlier else []):
            at.file.append(Note(topic, {"sentences": lines, "of": _of(plan)}))


def of_plan(note: Note, plan: Plan) -> bool:
    """Return whether a note belongs to this plan; older notes name no plan and count for any."""
    return note.data.get("of") in (None, _of(plan))


def _of(plan: Plan) -> str | None:
    return _digest(contest.name for contest in plan.contests)


def _measure(at: Session, contests: Sequence[Contest], budget: Budget, count: int, *, leaves: bool = False) -> float:
    """Measure all contests, `count` times in fresh processes and shuffled order; return seconds left.

    `leaves`: leave out contests without time for their fewest rounds; only if `count` is 1."""
    if count == 1:
        return measure_all(at, contests, budget, leaves=leaves)
    left = budget.seconds
    try:
        for number, todo in replicates.passes(contests, count, at.file.run, at.runner.seed):
            share = replace(budget, seconds=budget.seconds / count * len(todo) / len(contests))
            fresh = replace(at, runner=at.runner.fresh(number))
            left -= share.seconds - measure_all(fresh, todo, share, partial(replicates.keep, at.file, number))
    except (KeyboardInterrupt, SystemExit):
        _combine(at, contests, count)
        raise
    _combine(at, contests, count)
    return left


def _combine(at: Session, contests: Sequence[Contest], count: int) -> None:
    """Append a record of each contest that combines its replicates so far."""
    for combined in replicates.until_now(contests, count, at.file.run):
        at.file.append(combined)


def name_kernels(at: Session) -> None:
    """Write the names of kernels that ran on a GPU into the run file, and end the workers."""
    if command_names.unnamed(at.file.run):
        at.runner.checks.workers.end()
        for note in command_names.collect(at.file.run):
            at.file.append(note)


def _left(plan: Plan, run: Run, path: Path | None) -> list[Contest]:
    """Return the contests that a resumed run file does not hold yet. Raises UsageError."""
    for contest in plan.contests:
        finished = [(recorded, plan.replicates) for recorded in _ended(run)]
        for recorded, count in (*finished, *((recorded, 1) for recorded in replicates.taken(run).values())):
            if recorded.contest == contest.name and (how := _unlike(contest, recorded, count)):
                raise UsageError(f"-o {path}: it holds {contest.name} {how}, {_commands(run)}: name another file")
    return _fresh(plan.contests, run)


def _ended(run: Run) -> list[record.Contest]:
    """Return a run's contests without interrupted ones, which are to be measured again."""
    return [contest for contest in run.contests if not contest.interrupted]


def _unlike(contest: Contest, done: record.Contest, count: int) -> str | None:
    """Format how a record differs from the requested contest of `count` replicates; None if it fits."""
    if any(result.status in ("planned", "built", "ran") for result in done.results):
        return "stopped by --until"
    if [result.name for result in done.measured] != [case.name for case in contest.cases]:
        return "with other cases"
    counts = {max(1, len(comparison.replicates)) for comparison in done.comparisons} - {count}
    return f"of {(other := counts.pop())} run{'s' * (other > 1)}" if counts else None


def _interrupted(plan: Plan, file: store.RunFile) -> str:
    kept = f"saved in {file.path}, continue with --resume" if file.path else "not saved (no -o FILE)"
    ended = f"{len(_ended(file.run))} of {counted(len(plan.contests), 'contest')} finished"
    if short := len(file.run.contests) - len(_ended(file.run)):
        ended += f", {short} more measured in part"
    if plan.replicates > 1:
        ended += f", {len(replicates.taken(file.run))} of {plan.replicates * len(plan.contests)} runs of them"
    return f"micro.{plan.name}: interrupted; {ended}: {kept}"


def measure_all(
    at: Session,
    contests: Sequence[Contest],
    budget: Budget,
    keep: Callable[[record.Contest], None] | None = None,
    *,
    leaves: bool = False,
) -> float:
    """Measure contests in turn, passing unused seconds to later contests; return the seconds left.

    Each contest gets the forecast seconds of its first batch, scaled by the pace so far, and a share of the rest by
    its number of cases. A budget too small for all first batches is shared in their proportion, but a contest may use
    all that is left for its first batch. `keep`: receives a finished contest, by default the run file; `leaves`: leave
    out contests for which the seconds left are too few for an interval. The result is negative if batches took
    longer."""
    needs = [forecast.first_look(contest, at.runner.limits) for contest in contests]
    left, spent = budget.seconds, 0.0
    measured: list[tuple[float, record.Contest]] = []
    for i, contest in enumerate(contests):
        pace = forecast.pace(measured)
        if leaves and measured and forecast.out_of_time(pace * needs[i], left):
            continue
        at.progress.begin(contest.title)
        rest = left - pace * sum(needs[i:])
        share = len(contest.cases) / sum(len(later.cases) for later in contests[i:])
        seconds = pace * needs[i] + rest * share if rest > 0 else left * needs[i] / sum(needs[i:])
        done = at.runner.run(contest, seconds, budget, left, at.file.append)
        spent += done.seconds["measuring"]
        left = max(budget.seconds - spent, 0.0)
        (keep or at.file.append)(done)
        measured.append((needs[i], done))
        if i == 0 and (text := forecast.corrected(done, contests, left)):
            at.progress.tell(text)
    return budget.seconds - spent


def _fresh(contests: Sequence[Contest], run: Run) -> list[Contest]:
    """Return the contests without an ended record, so that failed ones are not refined forever."""
    done = {contest.contest for contest in _ended(run)}
    return [contest for contest in contests if contest.name not in done]
