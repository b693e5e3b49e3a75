"""How long does a step take in each framework? Equal work is proven first, then all processes are timed in turns."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kernels.errors import UsageError
from macro import command
from micro.planning.options import Outputs, add_outputs, outputs_of
from micro.planning.request import SHARE, TIME, number

if TYPE_CHECKING:
    from macro.timing.entry import Entry, Plan
    from reports.store import RunFile

MARGIN = "1%"


def parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    options = command.parser("run", __doc__, several=True)
    command.add_device(options, several=True)
    options.add_argument("--phase", default="step", metavar="WORDS", help="forward, gradient, step, or a list (step)")
    options.add_argument(
        "--heap", default="default", metavar="WORDS", help="default, or keep: malloc keeps freed memory"
    )
    options.add_argument("--budget", default="60s", metavar="TIME", help="measuring time (60s)")
    options.add_argument(
        "--runs", type=int, default=3, metavar="N", help="generations of processes, of 6 rounds or more (3)"
    )
    options.add_argument("--margin", default=MARGIN, metavar="SHARE", help="ratios within 1 ± this are the same (1%%)")
    add_outputs(options)
    return options


@dataclass(frozen=True)
class RunRequest:
    """Parsed options: the plans, and the entries to be timed in each plan."""

    plans: Sequence[Plan]  # for each batch and phase
    entries: Sequence[Entry]
    margin: float  # ratios within 1 ± this count as equal
    outputs: Outputs


def request(argv: Sequence[str]) -> RunRequest:
    """Parse the words of the command. Raises UsageError."""
    from macro.networks.layer import PHASES
    from macro.timing.entry import Plan

    words = parser().parse_args(argv)
    net = command.network(words.network)
    command.check(words)
    entries = _entries(words)
    seconds = number(words.budget, TIME, "--budget", "60s")
    margin = number(words.margin, SHARE, "--margin", "1%")
    phases = dict.fromkeys(command.words(words.phase, "--phase", PHASES))
    wanted = list(itertools.product(command.batches(words.batch, net), phases))
    about = seconds / len(wanted), words.runs
    plans = [Plan(net, batch, phase, *about, asked=words.network) for batch, phase in wanted]
    return RunRequest(plans, entries, margin, outputs_of(vars(words)))


def main(argv: Sequence[str]) -> int:
    """Run the command; return 1 if a framework failed or did other work, or the code of a signal, else 0."""
    from macro.running import session
    from macro.timing.results import contest_name

    asked = request(argv)
    planned = [contest_name(plan) for plan in asked.plans]
    devices = list(dict.fromkeys(["cpu", *(entry.setting.device for entry in asked.entries)]))
    return session.kept("run", asked.outputs, planned, partial(_measure, asked), devices)


def _entries(words: argparse.Namespace) -> list[Entry]:
    """Return the entries devices × threads × heaps × frameworks, without duplicates. Raises UsageError."""
    from macro.timing.entry import Entry

    entries, variables = list[Entry](), command.variables(words.set)
    for device, count, policy, framework in itertools.product(
        command.devices(words.device),
        command.threads(words.threads),
        command.heaps(words.heap),
        command.frameworks(words.frameworks),
    ):
        setting, why = command.setting(count, policy, variables, device), command.elsewhere(framework, device)
        if not any((x.framework, x.setting) == (framework, setting) for x in entries):
            entries.append(Entry(framework, setting, status="skipped" if why else "ok", reason=why))
    if all(entry.status == "skipped" for entry in entries):
        raise UsageError(f"--device {entries[0].setting.device}: {entries[0].reason}")
    return entries


def _measure(asked: RunRequest, file: RunFile) -> None:
    """Measure each batch and phase, then append the answers to the run file."""
    from macro.running import session
    from macro.timing.answer import sentences
    from macro.timing.entry import Entry
    from reports.record import Note

    seed, say = int(file.run.environment.state["seed"]), partial(command.say, asked.outputs.quiet)
    for plan in asked.plans:
        fresh = [Entry(x.framework, x.setting, status=x.status, reason=x.reason) for x in asked.entries]
        session.contest(replace(plan, seed=seed), fresh, asked.margin, file, say)
    for plan in asked.plans:
        answer = sentences(plan, file.run)
        if answer not in [note.data.get("sentences") for note in file.run.notes]:
            file.append(Note("answer", {"sentences": answer}))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
