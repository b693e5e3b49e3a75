"""Table of the mechanisms claimed in SOURCES, with test command and last verdict (`--mechanisms`)."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernels import suite
from kernels.errors import UsageError

if TYPE_CHECKING:
    from reports.record import Comparison, Contest, Run

FILE = Path(__file__).with_name("mechanisms.json")
RUNS = Path("runs")  # where `make run` writes
WIDTHS = (4, 36, 40, 34)  # of the columns; with two blanks between them 120
NOT_YET = "not yet: "
SOURCES = {
    "S0": "Shi, Wang, Xu, Chu: arXiv 1608.07249, 2016-17",
    "S1": "Karmanov: DeepLearningFrameworks, 2017",
    "S2": "Woolf: deep-learning-cpu-gpu-benchmark, 2017",
    "S3": "an answer on StackExchange, 2017",
    "S4": "Bahrampour, Ramakrishnan, Schott, Shah: arXiv 1511.06435, 2015-16",
    "X": "convnet-benchmarks",
    "r": "after one of these: only in the repository of that text",
}


@dataclass(frozen=True)
class Trial:
    """A test of a mechanism: a command after `python -m`, and which comparisons of its run count."""

    command: str
    contest: str  # pattern matched from the start of a contest's name
    arm: str  # what differs between the two cases
    gpu: bool = False  # meaningful mainly on a GPU
    pair: str = ""  # pattern searched in `CONTENDER / BASELINE`, two case names

    def pairs(self, contest: Contest) -> list[Comparison]:
        """Return the comparisons of a measured contest that match the trial."""
        if not re.match(self.contest, contest.contest):
            return []
        return [x for x in contest.comparisons if re.search(self.pair, f"{x.contender} / {x.baseline}")]


@dataclass(frozen=True)
class Mechanism:
    """A claimed mechanism, with either a test, the reason why there is none, or a note on a later test."""

    id: str
    what: str
    source: str
    claim: str | None  # the published figure
    test: Trial | None = None
    why_not: str | None = None  # why there is no test
    later: str | None = None  # which benchmark has to be built first


@dataclass(frozen=True)
class Outcome:
    """Result of a mechanism's test in a run file."""

    file: str
    device: str
    first: Comparison  # the first comparison with a ratio, else the first
    verdicts: Counter[str]


def mechanisms(path: Path = FILE) -> tuple[Mechanism, ...]:
    """Load all mechanisms, in the order of the file."""
    rows = json.loads(path.read_bytes())
    return tuple(Mechanism(**row | ({"test": Trial(**row["test"])} if "test" in row else {})) for row in rows)


def runs(given: Sequence[Path]) -> list[tuple[str, Run]]:
    """Read run files, the latest first, as pairs of name and run.

    Takes the given files, those in given folders, or those in runs/. Skips unreadable files in folders. Raises
    UsageError for an unreadable file given by name."""
    from reports.store import Unreadable, read

    paths = [x for path in given or [RUNS] for x in (sorted(path.rglob("*.jsonl")) if path.is_dir() else [path])]
    files = []
    for path in paths:
        try:
            files.append((path.name, read(path)))
        except Unreadable as error:
            if path in given:
                raise UsageError(f"--mechanisms: {error}") from None
    return sorted(files, key=lambda x: x[1].environment.started, reverse=True)


def last(test: Trial, files: Sequence[tuple[str, Run]]) -> Outcome | None:
    """Return the outcome in the latest run with a ratio, else in the latest run without."""
    without = None
    for file, run in files:
        outcome = _outcome(test, file, run)
        if outcome is not None and outcome.first.ratio is not None:
            return outcome
        without = without or outcome
    return without


def _outcome(test: Trial, file: str, run: Run) -> Outcome | None:
    meant = [(contest, x) for contest in run.contests for x in test.pairs(contest)]
    if not meant:
        return None
    contest, first = next((x for x in meant if x[1].ratio is not None), meant[0])
    device = next((x.device for x in contest.results if x.name == first.contender), "")
    return Outcome(file, device, first, Counter(x.verdict for _, x in meant))


def lines(files: Sequence[tuple[str, Run]], entries: Sequence[Mechanism] | None = None) -> Iterator[str]:
    """Yield the lines of the table, at most 120 characters wide."""
    entries = mechanisms() if entries is None else entries
    outcomes = {x.id: last(x.test, files) if x.test else None for x in entries}
    yield from _row(("id", "mechanism (source; its figure)", "command, and difference", "verdict of the last run"))
    yield "  ".join("-" * width for width in WIDTHS)
    for entry in entries:
        yield from _row(_cells(entry, outcomes[entry.id]))
    yield ""
    yield from _summary(entries, outcomes, len(files))
    yield ""
    for source, text in SOURCES.items():
        yield f"  {source:4}{text}"


def _summary(entries: Sequence[Mechanism], outcomes: Mapping[str, Outcome | None], files: int) -> Iterator[str]:
    """Yield counts of mechanisms with a verdict, with only a command, without a command, and not built."""
    tested = sum(x.test is not None for x in entries)
    answered = sum(outcome is not None for outcome in outcomes.values())
    without = sum(x.why_not is not None for x in entries)
    yield f"{len(entries)} mechanisms:"
    yield f"  {answered:3} with a verdict, from the run files read ({files}; by default those in runs/);"
    yield "      if several apply, the latest with a ratio counts"
    yield f"  {tested - answered:3} with a command but no verdict in these files: run the command of the row with -o"
    yield "      runs/NAME.jsonl appended; its verdict is shown the next time"
    yield f"  {without:3} without a command: the row gives the reason"
    yield f"  {len(entries) - tested - without:3} whose benchmark is not implemented yet: the row names it"


def _cells(entry: Mechanism, outcome: Outcome | None) -> tuple[str, str, str, str]:
    what = f"{entry.what} ({entry.source}{f'; {entry.claim}' if entry.claim else ''})"
    if entry.test is None:
        later = (
            f"not implemented yet: {entry.later.removeprefix(NOT_YET)}"
            if entry.later
            else f"no command: {entry.why_not}"
        )
        return entry.id, what, later, "–"
    where = " (on a GPU)" if entry.test.gpu else ""
    module, *words = shlex.split(entry.test.command)
    return entry.id, what, f"{suite.typed(module, *words)}{where}\n{entry.test.arm}", _verdict(outcome)


def _verdict(outcome: Outcome | None) -> str:
    """Format an outcome: `slower 1.32 [1.28, 1.36]`, the counts of verdicts, and the file."""
    from reports import units

    if outcome is None:
        return "none in these files"
    x = outcome.first
    if x.ratio is None:
        text = f"{x.verdict}: {x.reason}" if x.reason else x.verdict
    else:
        text = f"{x.verdict} {units.ratio(x.ratio, x.low, x.high)}"
    if outcome.verdicts.total() > 1:
        counts = (f"{count} {word}" for word, count in outcome.verdicts.most_common())
        text += f"\n{outcome.verdicts.total()} pairs: {', '.join(counts)}"
    where = "" if outcome.device in ("cpu", "") else f", {outcome.device}"
    return f"{text}\n{outcome.file}{where}"


def _row(cells: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a table row, with each cell wrapped to its column."""
    columns = [_wrapped(cell, width) for cell, width in zip(cells, WIDTHS, strict=True)]
    for i in range(max(map(len, columns))):
        parts = (column[i] if i < len(column) else "" for column in columns)
        yield "  ".join(f"{part:{width}}" for part, width in zip(parts, WIDTHS, strict=True)).rstrip()


def _wrapped(cell: str, width: int) -> list[str]:
    """Wrap a cell, keeping a ratio and its interval on one line."""
    texts = (re.sub(r"(?<=\[)(\S+) (?=\S+\])", "\\1\N{NO-BREAK SPACE}", text) for text in cell.split("\n"))
    wrapped = [line for text in texts for line in textwrap.wrap(text, width, break_on_hyphens=False)]
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped]


def show(given: Sequence[Path]) -> int:
    """Print the table; return the exit code."""
    for line in lines(runs(given)):
        print(line)
    return 0
