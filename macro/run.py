"""How long does a step take, framework by framework? Equal work first, then time, all processes in turns."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.errors import UsageError
from macro import command
from micro.planning.request import SHARE, TIME, number
from reports import formats

if TYPE_CHECKING:
    from macro.networks.base import Network
    from macro.timing.resume import Round
    from macro.timing.turns import Entry, Plan
    from reports.record import Run
    from reports.store import RunFile

MARGIN = "1%"
EXPORTS = [kind for kind in formats.kinds() if kind != "text"]


def parser() -> argparse.ArgumentParser:
    """The options."""
    from macro.networks.base import PHASES

    made = command.parser("run", __doc__)
    made.add_argument("--phase", choices=PHASES, default="step", help="what is timed (step)")
    made.add_argument("--heap", default="default", metavar="WORDS", help="default, keep: what malloc gives back")
    made.add_argument("--division", default="default", metavar="WORDS", help="default, tuned: the knobs that won")
    made.add_argument("--budget", default="60s", metavar="TIME", help="time of measuring (60s)")
    made.add_argument(
        "--runs", type=int, default=3, metavar="N", help="generations of processes (3), of 6 rounds or more"
    )
    made.add_argument("--margin", default=MARGIN, metavar="SHARE", help="smallest difference that is one (1%%)")
    made.add_argument("--resume", action="store_true", help="go on with the run in -o FILE, if there is one")
    made.add_argument("-o", dest="output", metavar="FILE", type=Path, help="write the run file, JSON lines")
    for kind in EXPORTS:
        made.add_argument(f"--{kind}", metavar="FILE", help=f"write {kind} (- is stdout)")
    made.add_argument("--figures", metavar="DIR", type=Path, help="draw pictures into this folder")
    made.add_argument("-v", dest="verbose", action="store_true", help="every case with its command")
    return made


def main(argv: Sequence[str]) -> int:
    """The exit code; 1 where a framework failed or does other work."""
    return _run(parser().parse_args(argv))


def _run(arguments: argparse.Namespace) -> int:
    from kernels.devices import open_device
    from macro.timing.turns import Plan
    from micro.command import environment as machine
    from micro.command.outputs import open_outputs, say
    from micro.command.session import open_run_file
    from micro.planning.options import outputs_of
    from reports.record import Note

    net = command.network(arguments)
    if arguments.runs < 1:
        raise UsageError(f"--runs {arguments.runs}: take 1 or more")
    entries = _entries(arguments)
    seconds = number(arguments.budget, TIME, "--budget", "60s")
    margin = number(arguments.margin, SHARE, "--margin", "1%")
    if arguments.resume and arguments.output is None:
        raise UsageError("--resume: it needs a run file, -o FILE")
    plan = Plan(net, command.batch(arguments, net), arguments.phase, seconds, arguments.runs, asked=arguments.network)
    with ExitStack() as stack:
        outputs = outputs_of(vars(arguments))
        opened = open_outputs(outputs, stack)
        environment = machine.environment([open_device("cpu")], machine.command_line())
        file = open_run_file(arguments.output, environment, arguments.resume)
        stack.callback(file.close)
        divisions = list(dict.fromkeys(entry.division for entry in entries))
        for division in divisions:
            own = [entry for entry in entries if entry.division == division]
            share = replace(plan, seconds=seconds / len(divisions), seed=int(file.run.environment.state["seed"]))
            _measure(share, own, division, margin, file, arguments.quiet)
        sentences = _sentences(net, plan, file.run)
        if sentences not in [note.data.get("sentences") for note in file.run.notes]:
            file.append(Note("answer", {"sentences": sentences}))
        failed = say(file.run, outputs, opened)
    return failed or int(any(r.status in ("wrong", "failed") for r in file.run.results))


def _entries(arguments: argparse.Namespace) -> list[Entry]:
    """Frameworks × threads × heaps × divisions; twins by their knobs, such as two heaps of a tuned one, once."""
    from macro.timing.turns import Entry

    found: list[Entry] = []
    for division in command.words(arguments.division, "--division", command.DIVISIONS):
        for threads in command.threads(arguments.threads):
            for heap in command.heaps(arguments.heap):
                for framework in command.frameworks(arguments.frameworks):
                    setting, belongs = command.setting(framework, threads, heap, division)
                    if not any((x.framework, x.setting, x.division) == (framework, setting, belongs) for x in found):
                        found.append(Entry(framework, setting, belongs))
    return found


def _measure(plan: Plan, entries: list[Entry], division: str, margin: float, file: RunFile, quiet: bool) -> None:
    """Prove, take turns, write the contest down; what stands in the file already is left, or gone on with."""
    from macro.equality import gate
    from macro.timing import results, resume, turns

    said, contest = partial(command.say, quiet), results.contest_name(plan, division)
    named = {results.name(plan, entry): entry for entry in entries}
    taken = resume.rounds(file.run, contest)
    if _done(contest, list(named), taken, file):
        return
    with tempfile.TemporaryDirectory(prefix="kernelgap-macro-") as name:
        folder = Path(name)
        gate.refuse_unequal(plan, entries, folder, said)
        resume.restore(named, taken)
        keep = partial(resume.keep, file, contest, named)
        seconds = turns.take(resume.left(plan, taken), entries, folder, said, keep)
    file.append(results.contest(plan, entries, division, margin, seconds + resume.spent(taken)))


def _done(contest: str, names: list[str], taken: Sequence[Round], file: RunFile) -> bool:
    """Whether the file holds it whole. Raises UsageError where it holds one of other frameworks."""
    known = [[r.name for r in c.results] for c in file.run.contests if c.contest == contest]
    if any(found != names for found in [*known, *(list(one.entries) for one in taken)]):
        raise UsageError(
            f"-o {file.path}: it holds {contest} of other frameworks, from `{file.run.environment.command}`: name "
            "another file"
        )
    return bool(known)


def _sentences(net: Network, plan: Plan, run: Run) -> list[str]:
    from macro.timing.answer import sentences

    return sentences(net, plan, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
