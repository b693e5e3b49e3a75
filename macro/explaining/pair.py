"""The gap between two recordings of programs: commits, settings or machines; rows are module paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from macro.explaining import breakdown, gap, operation_work, tries
from macro.explaining.attribute import Attribution, attribute
from macro.explaining.rows import Row
from macro.explaining.sentences import Subject, sentences
from macro.watching import load
from macro.watching.recording import Recording, Watched
from reports import busy
from reports.explanation import Explanation
from reports.gate import Gate

NAMED = 5  # at most so many cells appear in sentences


@dataclass(frozen=True)
class _Side:
    """A recording with the attributions and the work of its processes."""

    recording: Recording
    processes: Sequence[Watched]
    attributions: Sequence[Attribution]
    work: operation_work.Work


# Facts about a program that are settings or measurements, so that they may differ between runs of the same program.
MEASURED = ("heap", "variables", "logged", "again", "without", "peak", "perf")


def _words(recording: Recording) -> dict[str, object]:
    """Return the facts that identify a program, without its heap and what was measured."""
    return {name: value for name, value in recording.program.items() if name not in MEASURED}


def explain(a: Recording, b: Recording, took: float, outcome: Gate | None = None) -> Explanation:
    """Return the document of the gap, by kinds of work only if either recording has no operations.

    `outcome`: of a gate, from processes of its own."""
    with_operations = all(any(process.events for process in recording.processes) for recording in (a, b))
    first, second = (_side(recording, with_operations) for recording in (a, b))
    sides = [_alike(first, second), _alike(second, first)]
    names = side_names(a, b)
    result = gap.gap([side.processes for side in sides], [side.attributions for side in sides], _rows(sides))
    result = replace(result, cells=tuple(replace(x, repeat=_repeat(x.members, x.column, sides)) for x in result.cells))
    named = gap.named(result)[:NAMED]
    heaps = tuple(str(recording.program["heap"]) for recording in (a, b))
    alike = _words(a) == _words(b)
    runs = min(len(side.processes) for side in sides)
    subject = Subject(
        f"A step of {a.name}" if a.name == b.name else "A step",
        names,
        runs,
        [side.processes for side in sides],
        (heaps[0], heaps[1]) if alike and heaps[0] != heaps[1] else None,
    )
    gap_sentence, *rest = sentences(result, named, subject)
    return Explanation(
        network=a.name,
        batch=0,
        phase="step",
        runs=runs,
        seconds=took,
        **result.recorded(names, [(side.processes, side.recording.threads) for side in sides]),
        closure={name: breakdown.closure(side.attributions, side.work) for name, side in zip("ab", sides, strict=True)},
        agreement=(),
        identity=(a.program, b.program),
        conditions=tuple(_conditions(sides, names, outcome)),
        named=tuple(named),
        gate=outcome,
        sentences=(gap_sentence, *_busy(sides), *rest, *_heap(result)),
    )


def _alike(side: _Side, other: _Side) -> _Side:
    """Truncate a side to the numbers of processes, and of rounds in each, that both sides have."""
    pairs = list(zip(side.attributions, other.attributions, strict=False))
    attributions, processes = [], []
    for (attribution, counterpart), process in zip(pairs, side.processes, strict=False):
        count = min(len(set(attribution.rounds)), len(set(counterpart.rounds)))
        last = sorted(set(attribution.rounds))[count - 1]
        steps = sum(number <= last for number in attribution.rounds)
        cells = {key: seconds[:steps] for key, seconds in attribution.cells.items()}
        attributions.append(replace(attribution, steps=steps, rounds=attribution.rounds[:steps], cells=cells))
        processes.append(replace(process, levels={**process.levels, "P0": process.levels["P0"][:count]}))
    return replace(side, attributions=attributions, processes=processes)


def _side(recording: Recording, with_operations: bool) -> _Side:
    processes = [process for process in recording.processes if process.levels.get("P3")]
    kept = [breakdown.with_spans(x) if with_operations else replace(x, events=[], traces=False) for x in processes]
    work = operation_work.work_of(recording.called) if with_operations else operation_work.Work()
    attributions = [attribute(process, {}, recording.threads) for process in kept]
    for attribution in attributions:
        attribution.flops, attribution.bytes = work.flops, work.bytes
    return _Side(recording, kept, attributions, work)


def _rows(sides: Sequence[_Side]) -> Mapping[str, Row]:
    """Return the rows of both sides by name, with a row's module path as its layer."""
    names = dict.fromkeys(key[0][0] for side in sides for attribution in side.attributions for key in attribution.cells)
    rows = {}
    for name in names:
        path, phase = breakdown.place(name)
        rows[name] = Row(name, path if phase else "", phase or name, (), 0.0)
    return rows


def side_names(a: Recording, b: Recording) -> tuple[str, str]:
    """Return distinct names of both sides: of the files, with folders, the heap, threads or version if they differ."""
    first, second = (str(recording.program["script"]).split("/") for recording in (a, b))
    if first != second:
        count = next((n for n in range(1, len(first)) if first[-n:] != second[-n:]), len(first))
        return "/".join(first[-count:]), "/".join(second[-count:])
    for word, of in (("heap", "heap"), ("threads", "threads"), ("version", "version")):
        x, y = a.program.get(of), b.program.get(of)
        if x != y:
            return f"{a.name} {word} {x}", f"{b.name} {word} {y}"
    return f"{a.name} A", f"{b.name} B"


def _repeat(members: Sequence[str], column: str, sides: Sequence[_Side]) -> str:
    """Return the command that measures a cell's largest operation alone, or "" if there is none."""
    for side in sides:
        if (largest := side.work.largest.get((tuple(members), column))) is not None:
            return operation_work.alone_command(largest[1])
    return "python -m micro.memory --faults" if column == "OS memory" else ""


def _conditions(sides: Sequence[_Side], names: Sequence[str], outcome: Gate | None) -> list[str]:
    conditions = []
    if min(len(side.processes) for side in sides) == 1:
        conditions.append(
            "1 process of each: intervals and named causes hold within these processes and exclude differences between "
            f"processes ({'which the gate includes' if outcome else '--runs 5'})"
        )
    machines = [(side.recording.program.get("host"), side.recording.program.get("processor")) for side in sides]
    if machines[0] != machines[1]:
        conditions.append("two machines: the gap includes their difference")
    for side, name in zip(sides, names, strict=True):
        if again := sum(process.retaken for process in side.processes):
            conditions.append(f"{name}: {again} watched blocks repeated, as memory grew, unlike in most blocks")
        if side.recording.ended:
            conditions.append(f"{name}: {side.recording.ended}")
    return conditions


def _busy(sides: Sequence[_Side]) -> list[str]:
    """Return a sentence, if any, that warns of other load, by the side with more of it."""
    shares = [load.taken([x for process in side.processes for x in process.load]) or 0.0 for side in sides]
    sentence = busy.pair_sentence(max(shares), sides[shares.index(max(shares))].recording.threads)
    return [sentence] if sentence else []


def _heap(result: gap.Gap) -> list[str]:
    """Return a suggestion to keep freed memory if side A spends significantly more in OS memory."""
    sure = any(bar.name == "OS memory" and bar.gap > 0 for bar in gap.named_bars(result, "cause"))
    return [f"To try: keep freed memory: start the program with {tries.KEEP}."] if sure else []
