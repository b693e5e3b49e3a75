"""How long does a step take, framework by framework? Equal work first, then time, all processes in turns."""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.errors import UsageError
from macro import command
from micro.planning.options import Outputs, add_outputs, outputs_of
from micro.planning.request import SHARE, TIME, number

if TYPE_CHECKING:
    from macro.timing.resume import Round
    from macro.timing.turns import Entry, Plan
    from reports.store import RunFile

MARGIN = "1%"


def parser() -> argparse.ArgumentParser:
    """The options."""
    from macro.networks.layer import PHASES

    options = command.parser("run", __doc__)
    options.add_argument("--phase", choices=PHASES, default="step", help="what is timed (step)")
    options.add_argument("--heap", default="default", metavar="WORDS", help="default, keep: what malloc gives back")
    options.add_argument(
        "--division",
        default="default",
        metavar="WORDS",
        help="default: as installed; tuned: with the settings of its adapter that won (default)",
    )
    options.add_argument("--budget", default="60s", metavar="TIME", help="time of measuring (60s)")
    options.add_argument(
        "--runs", type=int, default=3, metavar="N", help="generations of processes (3), of 6 rounds or more"
    )
    options.add_argument(
        "--margin", default=MARGIN, metavar="SHARE", help="ratios within ± this count as the same (1%%)"
    )
    add_outputs(options)
    return options


@dataclass(frozen=True)
class RunRequest:
    """What is run: `plan`, whose seconds are of all divisions together, in these entries. `margin`: the smallest
    ratio less one that is a difference."""

    plan: Plan
    entries: Sequence[Entry]
    margin: float
    outputs: Outputs


def request(argv: Sequence[str]) -> RunRequest:
    """What the words of the command mean. Raises UsageError."""
    from macro.timing.turns import Plan

    words = parser().parse_args(argv)
    net = command.network(words.network)
    if words.runs < 1:
        raise UsageError(f"--runs {words.runs}: take 1 or more")
    entries = _entries(words.frameworks, words.division, words.threads, words.heap)
    seconds = number(words.budget, TIME, "--budget", "60s")
    margin = number(words.margin, SHARE, "--margin", "1%")
    if words.resume and words.output is None:
        raise UsageError("--resume: it needs a run file, -o FILE")
    plan = Plan(net, command.batch(words.batch, net), words.phase, seconds, words.runs, asked=words.network)
    return RunRequest(plan, entries, margin, outputs_of(vars(words)))


def main(argv: Sequence[str]) -> int:
    """The exit code; 1 where a framework failed or does other work; where it is stopped, what says by what."""
    return _run(request(argv))


def _run(asked: RunRequest) -> int:
    from kernels.devices import open_device
    from macro.timing.results import contest_name
    from micro.command import environment as machine
    from micro.command.outputs import open_outputs, say
    from micro.command.session import open_run_file

    outputs = asked.outputs
    with ExitStack() as stack:
        streams = open_outputs(outputs, stack)
        environment = machine.environment([open_device("cpu")], machine.command_line())
        planned = [contest_name(asked.plan, x) for x in dict.fromkeys(entry.division for entry in asked.entries)]
        file = open_run_file(outputs.output, environment, outputs.resume, planned)
        stack.callback(file.close)
        stopped = 0
        try:
            _measure_all(asked, file)
        except (KeyboardInterrupt, SystemExit) as stop:
            stopped = 130 if isinstance(stop, KeyboardInterrupt) else int(str(stop.code))
            print(_interrupted(file), file=sys.stderr)
        failed = say(file.run, outputs, streams) if file.run.contests or not stopped else 0
    return stopped or failed or int(any(r.status in ("wrong", "failed") for r in file.run.results))


def _interrupted(file: RunFile) -> str:
    """What a stopped run has kept, and how one goes on."""
    from macro.timing.resume import TOPIC

    rounds = sum(note.topic == TOPIC for note in file.run.notes)
    kept = f"they are in {file.path}, --resume goes on" if file.path else "-o FILE would have kept them"
    return f"macro run: interrupted; {rounds} rounds had ended: {kept}"


def _entries(frameworks: str, division: str, threads: str, heap: str) -> list[Entry]:
    """Frameworks × threads × heaps × divisions; twins by their knobs, such as two heaps of a tuned one, once."""
    from macro.timing.turns import Entry

    entries: list[Entry] = []
    for one, count, policy, framework in itertools.product(
        command.words(division, "--division", command.DIVISIONS),
        command.threads(threads),
        command.heaps(heap),
        command.frameworks(frameworks),
    ):
        setting, belongs = command.setting(framework, count, policy, one)
        if not any((x.framework, x.setting, x.division) == (framework, setting, belongs) for x in entries):
            entries.append(Entry(framework, setting, belongs))
    return entries


def _measure_all(asked: RunRequest, file: RunFile) -> None:
    """One division after another, each with an equal share of the budget; then the answer."""
    from macro.timing.answer import sentences
    from reports.record import Note

    divisions, seed = dict.fromkeys(entry.division for entry in asked.entries), file.run.environment.state["seed"]
    for division in divisions:
        own = [entry for entry in asked.entries if entry.division == division]
        share = replace(asked.plan, seconds=asked.plan.seconds / len(divisions), seed=int(seed))
        _measure(share, own, division, asked.margin, file, asked.outputs.quiet)
    answer = sentences(asked.plan, file.run)
    if answer not in [note.data.get("sentences") for note in file.run.notes]:
        file.append(Note("answer", {"sentences": answer}))


def _measure(plan: Plan, entries: list[Entry], division: str, margin: float, file: RunFile, quiet: bool) -> None:
    """Prove, take turns, write the contest down; what stands in the file already is left, or gone on with."""
    from macro.equality import gate
    from macro.timing import results, resume, turns
    from reports import next_run

    say, contest = partial(command.say, quiet), results.contest_name(plan, division)
    named = {results.name(plan, entry): entry for entry in entries}
    taken = resume.rounds(file.run, contest)
    if _done(contest, list(named), taken, file):
        return
    began, before = time.monotonic(), resume.spent(taken)
    with tempfile.TemporaryDirectory(prefix="kernelgap-macro-") as name:
        folder = Path(name)
        seconds = gate.refuse_unequal(plan, entries, folder, say)
        resume.restore(named, taken)
        keep = partial(resume.keep, file, contest, named)
        seconds["measuring"] = before + turns.take(resume.left(plan, taken), entries, folder, say, keep)
    seconds["wall"] = before + time.monotonic() - began
    contest_record = results.contest(plan, entries, division, margin, seconds)
    file.append(next_run.foreseen(contest_record, next_run.spreads(file.run.environment)))


def _done(contest: str, names: list[str], taken: Sequence[Round], file: RunFile) -> bool:
    """Whether the file holds it whole. Raises UsageError where it holds one of other frameworks."""
    finished = [[r.name for r in c.results] for c in file.run.contests if c.contest == contest]
    if any(held != names for held in [*finished, *(list(one.entries) for one in taken)]):
        raise UsageError(
            f"-o {file.path}: it holds {contest} of other frameworks, from `{file.run.environment.command}`: name "
            "another file"
        )
    return bool(finished)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
