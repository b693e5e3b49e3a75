"""Measure a published table again: its networks and batches in every framework, beside the published times."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from macro import command
from micro.planning.options import Outputs, add_outputs, outputs_of
from micro.planning.request import TIME, number
from reports.parser import OneLineParser

if TYPE_CHECKING:
    from macro.frameworks import Framework
    from macro.tables import Table
    from macro.timing.entry import Entry, Plan
    from reports.store import RunFile

MARGIN = 0.01
RATE = 40e9  # FLOP/s of a thread, assumed to forecast the duration
START = 8.0  # seconds of starting a process and its first steps, assumed to forecast the duration
TABLE_BATCH = "own"


def parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    options = OneLineParser("python -m macro table", description=__doc__, allow_abbrev=False)
    options.add_argument("table", help="shi7: arXiv 1608.07249, table 7")
    options.add_argument("--networks", default="all", metavar="NAMES", help="networks, comma-separated (all)")
    options.add_argument("--frameworks", default="all", metavar="NAMES", help="comma-separated (all)")
    options.add_argument(
        "--batches",
        default=TABLE_BATCH,
        choices=(TABLE_BATCH, "all"),
        help="own: the table's; all: also those of the paper's figures (own)",
    )
    options.add_argument("--threads", metavar="N", help="thread counts (the table's, up to the number of cores)")
    options.add_argument(
        "--budget", default="6m", metavar="TIME", help="measuring time, exceeded if the fewest rounds take longer (6m)"
    )
    options.add_argument("--runs", type=int, default=2, metavar="N", help="generations of processes (2)")
    add_outputs(options)
    return options


@dataclass(frozen=True)
class Cells:
    """A group of the table's cells: a plan, and the entries that are timed in it."""

    plan: Plan
    entries: Sequence[Entry]

    @property
    def same(self) -> tuple[str, int]:
        """Key shared by cells of the same network and batch, whatever their phase."""
        return self.plan.network.name, self.plan.batch

    @property
    def seconds(self) -> float:
        """Estimated duration in seconds, without proofs of equal work."""
        from macro.timing.entry import FEWEST, LONG, WARM

        plan = self.plan
        steps = [plan.network.flops(plan.batch, plan.phase) / RATE / x.setting.threads for x in self.entries]
        rounds = sum(step if step >= LONG else max(2 * step, 0.2 + step) for step in steps) * FEWEST
        starts = sum(START + (WARM + 1) * step for step in steps)
        return plan.generations * (starts + max(rounds, plan.seconds / plan.generations))


@dataclass(frozen=True)
class TableRequest:
    """Parsed options: the table, and its cells to be measured, in order."""

    table: Table
    cells: Sequence[Cells]
    outputs: Outputs


def request(argv: Sequence[str]) -> TableRequest:
    """Parse the words of the command. Raises UsageError."""
    from kernels.devices.cpu import cores
    from macro import tables

    words = parser().parse_args(argv)
    table = tables.find(words.table)
    known = [line.network for line in table.lines]
    asked = known if words.networks == "all" else command.words(words.networks, "--networks", known)
    command.check(words)
    default = ",".join(str(count) for count in table.threads if count <= cores())
    rows, counts = command.frameworks(words.frameworks), command.threads(words.threads or default)
    wanted = [
        (line.network, batch, phase)
        for line in table.lines
        if line.network in asked
        for batch in (line.batches if words.batches == "all" else (line.batch,))
        for phase in (("step", "forward", "gradient") if batch == line.batch else ("step",))
    ]
    cells = [cells for which in wanted if (cells := _cells(table, *which, rows, counts, words.runs)).entries]
    each = number(words.budget, TIME, "--budget", "6m") / max(1, len(cells))
    return TableRequest(
        table, [replace(group, plan=replace(group.plan, seconds=each)) for group in cells], outputs_of(vars(words))
    )


def _cells(
    table: Table,
    network: str,
    batch: int,
    phase: str,
    rows: Sequence[Framework],
    counts: Sequence[int],
    generations: int,
) -> Cells:
    """Return a plan's cells; for phases other than a step, only frameworks with such cells in the table."""
    from macro.timing.entry import Entry, Plan

    chosen = [row for row in rows if phase == "step" or row.name in table.passes]
    net = command.network(network)
    settings = [(row, command.setting(count, "default")) for count, row in itertools.product(counts, chosen)]
    plan = Plan(net, batch, phase, 0.0, generations, asked=network)
    return Cells(plan, [Entry(row, setting) for row, setting in settings])


def main(argv: Sequence[str]) -> int:
    """Run the command; return 1 if a framework failed or did other work, or the code of a signal, else 0."""
    from macro.running import session
    from macro.timing.results import contest_name

    asked = request(argv)
    planned = [contest_name(group.plan) for group in asked.cells]
    return session.kept("table", asked.outputs, planned, partial(_measure, asked))


def _measure(asked: TableRequest, file: RunFile) -> None:
    """Measure all cells, then append the table of the results to the run file."""
    from kernels.devices.cpu import cores
    from macro.running import session
    from macro.tables import _text
    from reports import findings, units
    from reports.record import Note

    seed, say = int(file.run.environment.state["seed"]), partial(command.say, asked.outputs.quiet)
    left = [group for group in asked.cells if not session.done(group.plan, group.entries, file)]
    for i, group in enumerate(left):
        about = sum(other.seconds for other in left[i:])
        say(
            f"{group.plan.network.name}, batch {group.plan.batch}, {group.plan.phase}: {i + 1} of {len(left)}; about "
            f"{units.counted(round(about / 60), 'minute')} left, without missing proofs of equal work"
        )
        _carry([other for other in left[:i] if other.same == group.same], group)
        session.contest(replace(group.plan, seed=seed), group.entries, MARGIN, file, say)
    text = _text.text(asked.table, file.run, cores())
    if text not in [note.data.get("text") for note in file.run.notes]:
        file.append(Note(findings.TABLE, {"table": asked.table.name, "text": text}))


def _carry(past: Sequence[Cells], now: Cells) -> None:
    """Copy identity, status and reason of equal entries from earlier phases, except from failed entries."""
    known = [(x.framework, x.setting, x) for group in past for x in group.entries if x.status != "failed"]
    for entry in now.entries:
        for framework, setting, other in known:
            if (framework, setting) == (entry.framework, entry.setting):
                entry.identity, entry.status, entry.reason = other.identity, other.status, other.reason


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
