"""The breakdown of one program's step, from its recording; reports/step.py formats it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from macro.explaining import advice, certain, gap, kinds, long_steps, modules, trend, witnesses
from macro.explaining.attribute import Attribution, Key, attribute
from macro.explaining.operation_work import Work, alone_command, work_of
from macro.explaining.rows import ROLES
from macro.explaining.rows import phase as phase_of
from macro.watching import load, perf
from macro.watching.recording import Recording, Watched
from reports.explanation import OPERATING, PEAKS, Breakdown, Line, Operation, Part, Share, Trial, Witness, large

LEAST = 1e-7  # seconds of a step, below which a cell is left out of the document
OVER = 1.1  # times the plain step from which on the sum of rows is scaled to it
NAMED = 3  # operations of a cell, at most
WIDENED = ("bfloat16", "float16")  # computed as float32 by a processor without an instruction for them
SYSTEM = ("OS memory", "OS other")
AGREES, FEW = 0.05, 0.005  # tolerances: a share of the time that the system accounts for, and of a step
WORDS = {**{x: x for x in modules.PHASES}, **{role: phase_of(role) for role in ROLES}}
PHASE_OF = {word: WORDS[word] for word in sorted(WORDS, key=len, reverse=True)}  # by a row's suffix, longest first


@dataclass(frozen=True)
class Ceilings:
    """Peak rates of this machine with the program's number of threads."""

    flops: float | None  # FLOP/s of float32
    bytes: float | None  # memory bandwidth in bytes a second, caches excluded
    cache: int = 0  # bytes of the last-level cache
    notes: tuple[str, ...] = ()  # why a ceiling differs from the rate measured with all threads
    typed: Mapping[str, tuple[float | None, str]] = field(default_factory=dict)  # of other types: FLOP/s, such a note

    @property
    def named(self) -> dict[str, float]:
        """Known ceilings by the names that the document uses."""
        flops = {PEAKS[name]: rate for name, rate in self.peaks.items()}
        return {**flops, "bytes": self.bytes} if self.bytes else flops

    @property
    def peaks(self) -> dict[str, float]:
        """FLOP/s by data type, for 16 bits at least float32's; empty if unknown."""
        if not self.flops:
            return {}
        rates = {name: rate for name, (rate, _) in self.typed.items() if rate}
        return {"float32": self.flops, **rates, **{x: max(self.flops, rates.get(x, 0.0)) for x in WIDENED}}


def taken_apart(recording: Recording, took: float, ceilings: Ceilings) -> Breakdown:
    """Return the breakdown of a recorded step, without sentences; `took`: seconds of watching."""
    import numpy as np

    threads = recording.threads
    processes = [with_spans(process) for process in recording.processes if process.levels.get("P3")]
    long, started_in = long_steps.describe(recording), recording.started
    if long:
        started_in = started_in and long_steps.regular(started_in, processes)
        processes = [long_steps.regular(process) for process in processes]
    grown = trend.growth(processes[0]) if len(processes) == 1 else None
    attributions = [attribute(process, {}, recording.running) for process in processes]
    keys = sorted({key for attribution in attributions for key in attribution.cells})
    rounds = [attribution.by_round(keys) for attribution in attributions]
    if grown:
        phase = trend.where(_phases(keys, rounds[-1]), processes[-1].at)
        grown, started_in = replace(grown, phase=phase[0], of_phase=phase[1]), None
        rounds = [trend.level(x, process.at) for x, process in zip(rounds, processes, strict=True)]
        processes = [trend.without(process, grown.slope) for process in processes]
    plain = [np.array(process.levels["P0"]) for process in processes]
    step = certain.estimate(plain)
    scale = _scale(rounds, step.center)
    rounds = [x * scale for x in rounds]
    work = work_of(recording.called, ceilings.cache)
    seen = recording.program.get("settings") or {}
    if seen.get("bf16") and seen.get("matmul") == "medium":
        work.round_products()
    cells = _cells(keys, rounds, attributions, work)
    residual = step.center - sum(cell.a for cell in cells)
    shares, started = tuple(_shares(keys, rounds, cells, work, ceilings)), _started(started_in)
    breakdown = Breakdown(
        name=recording.name,
        program=recording.program,
        threads=threads,
        clock="processor and waiting" if threads == 1 else "wall",
        rounds=sum(map(len, plain)),
        seconds=took,
        step={"a": step.center},
        interval=certain.time_ends(step),
        cells=tuple(cell for cell in cells if cell.a >= LEAST),
        residual={"a": residual},
        kinds=shares,
        modules=tuple(modules.tree(cells)),
        levels={"a": _levels(processes)},
        faults={**_faults(processes), **({"started": started["faults"]} if started else {})},
        **gap.systems({"a": (processes, recording.running)}),
        closure={"a": closure(attributions, work)},
        started=started,
        ceilings=ceilings.named,
        types=_types(work, work.typed),
        conditions=(*_conditions(recording, processes), *_ceiling_notes(work, ceilings)),
        ended=recording.ended,
        lines=_lines(recording.program, step.center, with_long=long is None),
        called=work.places.by_name(),
        scale=scale,
        long=long,
        growth=grown,
        spread=None if grown or not processes else trend.spread(processes[-1]),
        trials=tuple(_trials(recording.program.get("trials") or {})),
        company=load.company([x for process in processes for x in process.load]),
        busy=load.taken([x for process in processes for x in process.load]),
    )
    beside = *witnesses.of_process(breakdown, work), *witnesses.knocked_out(breakdown, recording, processes)
    return replace(breakdown, witnesses=(*_witnesses(breakdown), *beside))


def _scale(rounds: Sequence[Any], step: float) -> float:
    """Return the factor from traced to plain steps, if tracing makes a step so much longer that rows exceed it."""
    total = sum(float(x.sum(axis=1).mean()) for x in rounds) / max(1, len(rounds))
    return step / total if total > OVER * step > 0 else 1.0


def with_sentences(recording: Recording, took: float, ceilings: Ceilings) -> Breakdown:
    """Return the breakdown of a recorded step with the sentences that sum it up."""
    breakdown = taken_apart(recording, took, ceilings)
    return replace(breakdown, sentences=tuple(advice.sentences(breakdown)))


def with_spans(process: Watched) -> Watched:
    """Replace a process's spans by spans made from its profiler events; without events keep them."""
    return replace(process, spans=modules.spans(process.events)) if process.events else process


def _cells(keys: Sequence[Key], rounds: Sequence[Any], attributions: Sequence[Attribution], work: Work) -> list[Part]:
    """Return the cells (rows × kind of work) with time, interval and work, the largest time first."""
    cells = []
    measured = any(attribution.faults for attribution in attributions)
    for i, (members, column) in enumerate(keys):
        estimate = certain.estimate([x[:, i] for x in rounds])
        low, high = certain.ends(estimate)
        done, basis = _done(members, column, work, attributions, measured)
        path, phase = place(members[0])
        unit = kinds.find(column).unit
        rate = done / estimate.center if done and estimate.center > 0 else None
        largest = work.largest.get((members, column))
        cells.append(
            Part(
                row=members[0],
                path=path,
                phase=phase,
                column=column,
                a=estimate.center,
                low=low,
                high=high,
                work=done,
                unit=unit,
                basis=basis,
                rate=rate,
                seen=gap.seen((members, column), attributions),
                calls=float(work.calls[members, column]),
                repeat=alone_command(largest[1]) if largest else "",
                bytes=work.bytes.get((members, column)) if unit == kinds.FLOP else None,
                dtype=next(iter(_types(work, [(members, column)])), ""),
                operations=tuple(_operations((members, column), estimate.center, attributions, work)),
            )
        )
    return sorted(cells, key=lambda cell: -cell.a)


def _phases(keys: Sequence[Key], seconds: Any) -> dict[str, Any]:
    """Sum the seconds of rounds × cells by phase."""
    sums: dict[str, Any] = {}
    for i, (members, _) in enumerate(keys):
        phase = place(members[0])[1]
        sums[phase] = sums.get(phase, 0.0) + seconds[:, i]
    return sums


def _operations(key: Key, seconds: float, attributions: Sequence[Attribution], work: Work) -> Iterator[Operation]:
    """Yield a cell's longest operations; its seconds are divided by the samples in each."""
    samples = sum((attribution.named.get(key, Counter()) for attribution in attributions), Counter[str]())
    for name, count in samples.most_common(NAMED):
        if "::" in name:
            shapes = work.shapes.get((key[0][0], name), Counter[str]())
            shape = max(shapes, key=shapes.__getitem__, default="")
            yield Operation(name.removeprefix("aten::"), seconds * count / samples.total(), shapes.total(), shape)


def _done(
    members: tuple[str, ...], column: str, work: Work, attributions: Sequence[Attribution], measured: bool
) -> tuple[float | None, str]:
    """Return a cell's work in its kind's unit and its basis, measured or nominal; (None, "") if unknown."""
    unit, key = kinds.find(column).unit, (members, column)
    if unit == kinds.FAULTS:
        faults = sum(attribution.faults.get(members, 0.0) for attribution in attributions) / len(attributions)
        return (faults, "measured") if measured else (None, "")
    done = {kinds.FLOP: work.flops, kinds.BYTES: work.bytes}.get(unit or "", {}).get(key)
    return (done, "nominal") if done else (None, "")


def place(row: str) -> tuple[str, str]:
    """Split a row's name into path and phase (a layer's role becomes its phase), "" if it names no phase."""
    word = next((x for x in PHASE_OF if row.endswith(f" {x}")), "")
    return (row.removesuffix(f" {word}"), PHASE_OF[word]) if word else (row, "")


def _shares(
    keys: Sequence[Key], rounds: Sequence[Any], cells: Sequence[Part], done: Work, ceilings: Ceilings
) -> list[Share]:
    """Sum the cells by kind; memory is the ceiling of passes only if most of their bytes miss the caches."""
    shares = []
    for name in sorted({column for _, column in keys}):
        at = [i for i, key in enumerate(keys) if key[1] == name]
        estimate = certain.estimate([x[:, at].sum(axis=1) for x in rounds])
        of_kind = [cell for cell in cells if cell.column == name]
        known = [cell for cell in of_kind if cell.work]
        work = sum(cell.work or 0.0 for cell in known)
        busy = sum(cell.a for cell in known)
        low, high = certain.ends(estimate)
        unit = kinds.find(name).unit
        rate = work / busy if work and busy > 0 else None
        keys_known = [((cell.row,), name) for cell in known]
        types = _types(done, keys_known)
        least, ceiling = _floor(keys_known, unit, work, done, ceilings)
        shares.append(
            Share(
                name=name,
                a=estimate.center,
                low=low,
                high=high,
                work=work or None,
                unit=unit,
                rate=rate,
                ceiling=ceiling if least else None,
                percent=least / busy if least and busy > 0 else None,
                least=least,
                left=None if least is None else estimate.center - least,
                dtype=" and ".join(large(types)),
            )
        )
    return sorted(shares, key=lambda share: -share.a)


def _types(work: Work, keys: Iterable[Key]) -> dict[str, float]:
    """Sum the FLOP of cells by data type, the largest sum first."""
    typed: dict[str, float] = {}
    for key in keys:
        for name, flops in work.typed.get(key, {}).items():
            typed[name] = typed.get(name, 0.0) + flops
    return dict(sorted(typed.items(), key=lambda item: -item[1]))


def _floor(
    keys: Sequence[Key], unit: str | None, work: float, done: Work, ceilings: Ceilings
) -> tuple[float | None, str]:
    """Return the least seconds for a kind's work on this machine, None if unknown, and the ceiling's name."""
    if unit == kinds.BYTES:
        far = sum(done.far.get(key, 0.0) for key in keys) >= 0.5 * work
        return work / ceilings.bytes if ceilings.bytes and work and far else None, "memory"
    least = _least(_types(done, keys), ceilings)
    if least is None or not ceilings.bytes:
        return least, "multiply-adds"
    thin = sum(done.thin.get(key, 0.0) for key in keys) / ceilings.bytes  # they read more than they compute
    return least + thin, "memory" if thin > least else "multiply-adds"


def _least(types: Mapping[str, float], ceilings: Ceilings) -> float | None:
    """Return the least seconds for these FLOP by type; None if a type of large share has no ceiling."""
    types = large(types)
    if not types or not types.keys() <= ceilings.peaks.keys():
        return None
    return sum(flops / ceilings.peaks[name] for name, flops in types.items())


def _ceiling_notes(work: Work, ceilings: Ceilings) -> Iterator[str]:
    """Yield notes on the ceilings of the data types that a step computes in."""
    types = large(_types(work, work.typed))
    if not ceilings.flops or not types:
        return
    yield from ceilings.notes
    for name in types:
        rate, note = ceilings.typed.get(name, (None, ""))
        if note:
            yield f"{name}: {note}"
        if name in WIDENED and not rate:
            yield f"no {name} instruction of this processor is measured: its ceiling is float32's"
    if unknown := sorted(types.keys() - ceilings.peaks.keys()):
        yield f"products in {', '.join(unknown)} have no known ceiling, so no share of it is shown"


def _levels(processes: Sequence[Watched]) -> dict[str, float]:
    """Return the mean time of a step at each level of watching, relative to an unwatched step."""
    names = sorted({x for process in processes for x in process.levels if not x.startswith("without")} - {"P0"})
    plain = gap.mean([x for process in processes for x in process.levels["P0"]])
    return {name: gap.mean([x for p in processes for x in p.levels.get(name, [])]) / plain for name in names}


def _faults(processes: Sequence[Watched]) -> dict[str, float]:
    """Return the mean page faults of a step at each level of watching."""
    names = sorted({name for process in processes for name in process.faulted})
    return {name: gap.mean([x for p in processes for x in p.faulted.get(name, [])]) for name in names}


def _started(started: Watched | None) -> dict[str, float]:
    """Return time and page faults of a step on the program's initial heap; empty if not measured."""
    import numpy as np

    if started is None:
        return {}
    estimate = certain.estimate([np.array(started.levels["P0"])])
    low, high = certain.time_ends(estimate)
    return {"seconds": estimate.center, "low": low, "high": high, "faults": gap.mean(started.faults)}


def closure(attributions: Sequence[Attribution], work: Work) -> dict[str, float | None]:
    """Return the shares of step time that samples, spans, names and threads cover, and a step's FLOP."""
    return {**gap.covered(attributions), "flops": sum(work.flops.values()) or None}


def _witnesses(breakdown: Breakdown) -> list[Witness]:
    """Cross-check system time: samples of watched steps against the operating system's accounting."""
    if perf.missing() or not perf.sees_kernel():
        return []
    step, watched = breakdown.step["a"], breakdown.watched_system.get("a")
    seen, which = (breakdown.system["a"], "of plain steps") if watched is None else (watched, "of the same steps")
    sampled = sum(breakdown.share(name) for name in SYSTEM) * step / breakdown.scale
    errors = sum(max(kind.high - kind.low, 0.0) / 2 for kind in breakdown.kinds if kind.name in SYSTEM)
    off, near = abs(sampled - seen), max(AGREES * seen, FEW * step)
    verdict = "agree" if off <= near else "cannot tell" if off <= errors + FEW * step else "disagree"
    return [Witness(OPERATING, sampled, seen, verdict, f"samples of watched steps; its accounting {which}")]


def _lines(program: Mapping[str, Any], step: float, with_long: bool) -> tuple[Line, ...]:
    """Return the sampled lines of a program with their seconds of a step, all of them one step at most.

    `with_long`: of all steps, that is also of long ones, whose later parts are sampled in plain blocks."""
    sampled = [program[name] for name in ("lines", "long lines")[: 1 + with_long] if name in program]
    took: dict[str, tuple[str, str, float]] = {}
    for of in sampled:
        for place, (function, text, seconds, *_) in of["lines"].items():
            took[place] = function, text, took.get(place, ("", "", 0.0))[2] + seconds / of["steps"]
    every = sum(seconds for *_, seconds in took.values())
    part = min(1.0, step / every) if every else 1.0  # more: other programs had the cores
    lines = [Line(*_place(place), function, text, part * seconds) for place, (function, text, seconds) in took.items()]
    return tuple(sorted(lines, key=lambda line: -line.seconds))


def _trials(blocks: Mapping[str, Sequence[float]]) -> Iterator[Trial]:
    """Yield what each trial saves; `blocks`: seconds of a step by trial, "" as the program is."""
    import numpy as np

    plain = np.array(blocks.get("", ()))
    for name in (name for name in blocks if name):
        count = min(len(plain), len(blocks[name]))
        if count < 2:  # the script ended
            continue
        estimate = certain.estimate([plain[:count] - np.array(blocks[name][:count])])
        yield Trial(name, estimate.center, *certain.ends(estimate))


def _place(text: str) -> tuple[str, int]:
    file, _, line = text.rpartition(":")
    return file, int(line)


def _conditions(recording: Recording, processes: Sequence[Watched]) -> list[str]:
    """List the conditions under which the breakdown's figures hold."""
    conditions = ["1 process: intervals hold within this process and exclude differences between processes"]
    conditions += perf.limits()
    if not recording.called and not any(process.spans for process in processes):
        conditions.append("operations were not recorded; only kinds of work are known, from symbol names")
    if again := sum(process.retaken for process in processes):
        conditions.append(f"{again} watched blocks were repeated, as memory grew, unlike in most blocks")
    if recording.ended:
        conditions.append(recording.ended)
    return conditions
