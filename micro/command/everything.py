"""All benchmarks of `micro/`, and their useful command lines measured into one run file."""

from __future__ import annotations

import importlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernels import suite
from kernels.catalog import find
from kernels.devices import kind_of, open_device
from kernels.errors import UsageError
from micro.command.session import LACKS, Session, answered, measure_plan, of_plan, session
from micro.measuring.checks import refuse_size
from micro.planning.benchmark import NothingWritten, outside_caches
from micro.planning.options import Outputs, request
from micro.planning.repeat import Repeat
from micro.planning.request import Plan, planned
from reports import flat, units
from reports.table import contrast

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from micro.planning.benchmark import Benchmark, Useful
    from reports.record import Comparison, Result, Run

HERE = Path(__file__).parents[1]
ALL = range(sys.maxsize)  # every rank
MEMORY = "{memory}"  # in a useful line: bytes outside the device's caches


@dataclass(frozen=True)
class Part:
    """A planned command line of a benchmark, as a part of `python -m micro all`."""

    name: str
    words: str
    plan: Plan
    rank: int = 0

    @property
    def title(self) -> str:
        return f"python -m micro.{self.name}{' ' * bool(self.words)}{self.words}"


def benchmarks() -> dict[str, Benchmark]:
    """Return the BENCHMARK of each file of `micro/` that has one, by the file's name."""
    names = sorted(path.stem for path in HERE.glob("[a-z]*.py"))
    modules = {name: importlib.import_module(f"{suite.PREFIX}micro.{name}") for name in names}
    return {name: module.BENCHMARK for name, module in modules.items() if hasattr(module, "BENCHMARK")}


def parts(device: str, small: bool = False, ranks: range = ALL) -> list[Part]:
    """Return the useful command lines of every benchmark for this device, the most valuable first.

    `small`: replace sizes by ones that need no time. Lines with the same contests are kept only once.
    """
    candidates = []
    for name, benchmark in benchmarks().items():
        for line in benchmark.useful:
            if bool(line.rank) == kind_of(device).undivided and line.rank in ranks:
                with suppress(NothingWritten):
                    candidates.append(_part(benchmark, name, line, device, small))
    candidates = [part for part in candidates if _written(part, kind_of(device).kernels)]
    if not candidates:
        raise UsageError(f"--device {device}: no benchmark supports this device yet")
    kept: dict[tuple[str, ...], Part] = {}
    for part in sorted(candidates, key=lambda part: part.rank):
        kept.setdefault(tuple(contest.name for contest in part.plan.contests), part)
    return list(kept.values())


def _written(part: Part, kernels: str) -> bool:
    """Return whether any case of a part has a kernel for devices of this type.

    A useful line may name variants of another device."""
    cases = (case for contest in part.plan.contests for case in contest.cases)
    return any(find(case.problem.op, case.variant).device == kernels for case in cases)


def _part(benchmark: Benchmark, name: str, line: Useful, device: str, small: bool) -> Part:
    seconds = f"--budget {line.seconds:g}s" if line.seconds else ""
    asked = line.words
    if MEMORY in asked:
        asked = asked.replace(MEMORY, str(outside_caches(device)))
    words = " ".join(filter(None, (asked, benchmark.small if small else "", seconds, f"-q --device {device}")))
    meant, options = request(benchmark, name, shlex.split(words), raising=True)
    return Part(name, asked, planned(meant, name, options), line.rank)


def run(todo: Sequence[Part], device: str, budget: float, outputs: Outputs) -> Iterator[tuple[Part, Run]]:
    """Measure one part after another; yield each part with the run file so far.

    Each part gets its share of the `budget` seconds that are left; contests that the file holds are not measured again.
    `micro.names` adds the names of kernels that ran on a GPU."""
    opened = open_device(device)
    todo = _fitting(todo, opened)
    total = sum(part.plan.budget.seconds for part in todo)
    contests = tuple(contest for part in todo for contest in part.plan.contests)
    planned = [contest.name for contest in contests]
    with session("all", [opened], len(contests), outputs, planned=planned) as at:
        left = budget
        for part in todo:
            share = replace(part.plan.budget, seconds=max(left, 0.0) * part.plan.budget.seconds / total)
            if not outputs.quiet:
                text = f"{share.seconds:.0f} of the remaining {left:.0f} s of measuring"
                print(f"{part.title}: {text}", file=sys.stderr, flush=True)
            total -= part.plan.budget.seconds
            here: Session = replace(at, runner=replace(at.runner, repeat=Repeat(part.name, part.plan.swept)))
            names = _names(part, todo, at.file.run)
            others = {contest.name for contest in contests} | {x.contest for x in at.file.run.contests}
            unused = measure_plan(here, replace(part.plan, budget=share), frozenset(others - names), leaves=False)
            left -= share.seconds - unused
            yield part, at.file.run


def _fitting(todo: Sequence[Part], device: Device) -> list[Part]:
    """Drop and print contests too large for the device's memory. Raises UsageError if none is left."""
    limits, kept, refused = {device.name: device.limits()}, list[Part](), list[UsageError]()
    for part in todo:
        contests = []
        for contest in part.plan.contests:
            try:
                refuse_size([contest], limits)
                contests.append(contest)
            except UsageError as error:
                refused.append(error)
                print(f"{part.title}: {contest.name} is left out: {error}", file=sys.stderr)
        if contests:
            kept.append(replace(part, plan=replace(part.plan, contests=tuple(contests))))
    if refused and not kept:
        raise refused[0]
    return kept


def _names(part: Part, todo: Sequence[Part], run: Run) -> set[str]:
    """Return the names of a part's contests, planned or added later by its question's `refine`."""
    names = {contest.name for contest in part.plan.contests}
    owner = {contest.name: other for other in todo for contest in other.plan.contests}
    last = None
    for contest in run.contests:
        last = owner.get(contest.contest, last)
        if last and last.title == part.title:
            names.add(contest.contest)
    return names


def answer(part: Part, todo: Sequence[Part], run: Run) -> list[str]:
    """Return a part's answer, else a line per comparison; then failures and its best share of a ceiling."""
    names = _names(part, todo, run)
    mine = replace(run, contests=tuple(contest for contest in run.contests if contest.contest in names))
    lines = (_line(*x) for contest in mine.contests for x in contest.compared)
    lacks = [note.data["sentences"] for note in run.notes if note.topic == LACKS and of_plan(note, part.plan)]
    sentences = [*(answered(part.plan, mine) or lines), *(lacks[-1] if lacks else ())]
    sentences = [*sentences, *_broken(mine, sentences)]
    near = [(x.percent_of_ceiling, x) for x in mine.measured if x.percent_of_ceiling is not None]
    if near:
        percent, best = max(near, key=lambda x: x[0])
        sentences = [
            *sentences,
            f"Nearest to its ceiling: {flat.plain(best.name)}, {units.percent(percent)} of {best.ceiling}.",
        ]
    return sentences


def _broken(run: Run, sentences: Sequence[str]) -> list[str]:
    """Return the reasons why cases were wrong or failed, without those already in `sentences`."""
    by_reason: dict[str, dict[str, None]] = {}
    for result in run.results:
        if result.status in ("wrong", "failed") and not any(str(result.reason) in x for x in sentences):
            by_reason.setdefault(f"{result.status}: {result.reason}", {})[result.name] = None
    return [
        f"{next(iter(names))}{f' and {len(names) - 1} more' if len(names) > 1 else ''} {reason}"
        for reason, names in by_reason.items()
    ]


def _line(comparison: Comparison, *pair: Result) -> str:
    common, contender, baseline = contrast(*pair)
    shown = units.ratio(comparison.ratio, comparison.low, comparison.high)
    conclusion = comparison.reason if comparison.ratio is None else comparison.verdict
    return f"{common}: {contender} / {baseline} {shown}, {conclusion}"
