"""The document that explains the gap between two watched steps; reports/attribution.py formats it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from kernels.ops.conv.problem import Conv
from macro.explaining import gap, remedies, witnesses
from macro.explaining.attribute import Attribution, attribute, shared
from macro.explaining.gap import Gap
from macro.explaining.repeat import command, headroom, transposition
from macro.explaining.rows import Row, groups, rows
from macro.explaining.sentences import Subject, first_answer, sentences
from macro.timing.entry import Plan
from macro.watching import perf
from macro.watching.watch import Side
from reports import units
from reports.explanation import Cell, Explanation

NAMED = 5  # at most so many cells appear in sentences


@dataclass(frozen=True)
class Analysis:
    """Two sides (frameworks or settings), with their attributions and the gap between their steps."""

    sides: Sequence[Side]
    known: Mapping[str, Row]  # rows of the network
    group: Mapping[str, tuple[str, ...]]  # for each row, the rows of the same fused operation
    attributions: Sequence[Sequence[Attribution]]  # by side and process
    gap: Gap


def explain(
    plan: Plan, sides: Sequence[Side], took: float, kernels: bool = False, stopped: str | None = None
) -> Explanation:
    """Return the document; with `kernels`, also measure the calls of the named cells in isolation.

    `took`: seconds of watching; `stopped`: the reason if watching ended early."""
    conditions, taken = _conditions(plan, sides), _analysis(plan, sides)
    result, names = taken.gap, [_name(side, taken.sides) for side in taken.sides]
    named, both = gap.named(result)[:NAMED], list(zip("ab", taken.sides, taken.attributions, strict=True))
    left = headroom(named, plan, taken.sides, taken.known) if kernels else []
    if stopped:
        conditions.append(f"stopped early: {stopped}")
    if kernels and not left:
        conditions.append("--kernels: none of the named operations could be measured by itself")
    return Explanation(
        network=plan.network.name,
        batch=plan.batch,
        phase=plan.phase,
        runs=plan.generations,
        seconds=took,
        **result.recorded(names, [(side.processes, side.entry.setting.threads) for side in taken.sides]),
        closure={name: {**gap.covered(of), **witnesses.closure(side)} for name, side, of in both},
        agreement=tuple(x for side in both for x in witnesses.agreement(*side, taken.group, taken.known)),
        products={name: tuple(asdict(x) for x in side.logged.products) for name, side, _ in both},
        algorithms={name: _algorithms(side, taken.known) for name, side, _ in both},
        identity=tuple(side.entry.identity for side in taken.sides),
        conditions=tuple(conditions),
        named=tuple(named),
        headroom=tuple(left),
        sentences=(
            *sentences(result, named, _subject(plan, taken.sides, names)),
            *remedies.sentences(result, plan, taken.sides),
        ),
    )


def _algorithms(side: Side, by_name: Mapping[str, Row]) -> tuple[tuple[str, str], ...]:
    """Return each convolution's row with the algorithm that the framework's library logged."""
    ran = side.logged.convolutions
    return tuple(
        (row.name, ran[x]) for row in by_name.values() for x in row.problems if isinstance(x, Conv) and x in ran
    )


def _subject(plan: Plan, sides: Sequence[Side], names: Sequence[str]) -> Subject:
    title = f"A {plan.phase} of {plan.network.name}, batch {plan.batch},"
    a, b = (side.entry for side in sides)
    heaps = a.setting.heap, b.setting.heap
    alike = a.framework.name == b.framework.name and a.setting == replace(b.setting, heap=heaps[0])
    processes = [side.processes for side in sides]
    return Subject(title, names, plan.generations, processes, heaps if alike and heaps[0] != heaps[1] else None)


def so_far(plan: Plan, sides: Sequence[Side]) -> str:
    """Return a one-line preliminary answer from the rounds watched so far."""
    taken = _analysis(plan, sides)
    rounds = sum(len(process.levels["P0"]) for process in taken.sides[0].processes)
    return first_answer(taken.gap, [_name(side, taken.sides) for side in taken.sides], rounds)


def _analysis(plan: Plan, sides: Sequence[Side]) -> Analysis:
    sides, by_name = _comparable(sides), rows(plan.network, plan.batch)
    group = groups((span["rows"] for side in sides for process in side.processes for span in process.spans), by_name)
    threads = sides[0].entry.setting.threads
    attributions = [
        [shared(attribute(process, group, threads), group, by_name) for process in side.processes] for side in sides
    ]
    result = gap.gap([side.processes for side in sides], attributions, by_name)
    cells = tuple(_complete(cell, plan, sides, by_name) for cell in result.cells)
    return Analysis(sides, by_name, group, attributions, replace(result, cells=cells))


def _complete(cell: Cell, plan: Plan, sides: Sequence[Side], by_name: Mapping[str, Row]) -> Cell:
    """Add to a cell its product's transposition on each side, and the command that measures it alone."""
    how = {name: transposition(cell, side, by_name) for name, side in zip("ab", sides, strict=True)}
    return replace(cell, how=how, repeat=command(cell, plan, sides, by_name))


def _comparable(sides: Sequence[Side]) -> Sequence[Side]:
    """Remove all spans if any process has none, as rows of one side would have no counterpart."""
    if all(process.traces for side in sides for process in side.processes):
        return sides
    return [
        replace(side, processes=[replace(process, spans=[], traces=False) for process in side.processes])
        for side in sides
    ]


def _name(side: Side, sides: Sequence[Side]) -> str:
    """Return a side's framework, with its heap if the sides' heaps differ."""
    entry, others = side.entry, [other.entry for other in sides if other is not side]
    more = [f"heap {entry.setting.heap}"] if any(o.setting.heap != entry.setting.heap for o in others) else []
    return " ".join([entry.framework.name, *more])


def _conditions(plan: Plan, sides: Sequence[Side]) -> list[str]:
    """List the conditions under which the explanation's figures hold."""
    conditions = []
    if plan.generations == 1:
        conditions.append(
            "1 process of each: intervals and named causes hold within these processes and exclude differences between "
            f"processes (--runs {gap.PROCESSES})"
        )
    elif plan.generations < gap.PROCESSES:
        conditions.append(f"{plan.generations} processes of each: few, so intervals are wide (--runs {gap.PROCESSES})")
    conditions += perf.limits()
    for side in sides:
        if not all(process.traces for process in side.processes):
            conditions.append(f"{side.entry.framework.name} has no tracer spans: only causes, no rows, for both sides")
        if again := sum(process.retaken for process in side.processes):
            conditions.append(
                f"{_name(side, sides)}: {units.counted(again, 'watched block')} repeated, as memory grew, unlike in "
                "most blocks"
            )
    return conditions
