"""Sentences about one program's step: its time, kinds of work, modules, overhead, and what to try."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from macro.explaining import kinds, settings, tries
from macro.explaining.modules import PHASES
from reports import busy, company
from reports.explanation import Breakdown, Line, Module, Share, in_type, large
from reports.units import counted, scaled, seconds, signed

LARGE = 0.05  # least share of a step of a kind or a module that sentences name
SEVERAL = 1.2  # times as many events from which on steps differ in what they run
SOURCE = 60  # characters of a line of source text


def sentences(breakdown: Breakdown) -> list[str]:
    """Return all sentences about a step: its time, settings, kinds of work, modules, overhead, then remedies."""
    return [
        *company.sentences(breakdown),
        _step(breakdown),
        *_long(breakdown),
        *([] if company.disturbs(breakdown) else _trend(breakdown)),
        *settings.sentences(breakdown),
        *_as_started(breakdown),
        _kinds(breakdown),
        *_places(breakdown),
        *_operations(breakdown),
        *_lines(breakdown),
        *_no_work(breakdown),
        *_looking(breakdown),
        *([] if company.disturbs(breakdown) else [*tries.sentences(breakdown), *settings.undecided(breakdown)]),
    ]


def first_answer(breakdown: Breakdown) -> str:
    """Return the step's time and its four largest kinds of work in one line."""
    kinds_ = ", ".join(f"{share.name} {share.a / breakdown.step['a']:.0%}" for share in breakdown.kinds[:4])
    return f"{breakdown.name}, {breakdown.rounds} rounds: {seconds(breakdown.step['a'])} a step: {kinds_}"


def _step(breakdown: Breakdown) -> str:
    low, high = breakdown.interval
    program = breakdown.program
    torch = program.get("framework") == "pytorch"
    version = f"PyTorch {program['version']}" if torch else f"Python {program['python']}"
    threads = f"{breakdown.threads} thread{'s' * (breakdown.threads > 1)}"
    rate = _rate(breakdown)
    heap = {"keep": "freed memory kept", "default": "the default heap"}.get(str(program["heap"]), "")
    if breakdown.started and tries.kept(breakdown)[1]:
        heap += f" (as started: {seconds(breakdown.started['seconds'])})"
    others = f"; other programs used {breakdown.company:.2f} cores" if (breakdown.company or 0.0) > busy.OTHERS else ""
    return (
        f"A step of {breakdown.name} takes {seconds(breakdown.step['a'])} [{seconds(low)}, {seconds(high)}] within "
        f"this process{rate}. {version}, {threads}, {heap}; a step ends with {program['step']}; "
        f"{breakdown.rounds} rounds{others}."
    )


def _long(breakdown: Breakdown) -> Iterator[str]:
    """Yield a sentence on rare long steps, by where their time is spent, which the other sentences exclude."""
    if long := breakdown.long:
        kinds = [f"in {x.every:.0f} steps takes {seconds(x.line.seconds)}{_at(x.line)}" for x in long.kinds]
        if len(kinds) < 2:
            kinds = [
                f"in {long.every:.0f} steps takes {seconds(long.seconds)}{_at(long.kinds[0].line) if kinds else ''}"
            ]
        yield (
            f"One {', one '.join(kinds)}: {long.share:.0%} of the time of all "
            f"steps ({counted(long.count, 'such step')} seen). All else is of the regular steps."
        )


def _at(line: Line) -> str:
    return f" at {Path(line.file).name}:{line.number} ({_cut(line.text)})"


def _trend(breakdown: Breakdown) -> Iterator[str]:
    """Yield a sentence on steps that grow, or that vary."""
    if grown := breakdown.growth:
        most = f", most of it in {grown.phase} ({signed(grown.of_phase)})" if grown.phase else ""
        yield (
            f"Steps grow: {signed(grown.slope)} with each step [{signed(grown.low)}, {signed(grown.high)}], from "
            f"{seconds(grown.first)} to {seconds(grown.last)} in {grown.end - grown.begin} steps{most}: what a step "
            "makes is kept for the next. Rows are means over these steps."
        )
    if varied := breakdown.spread:
        counts = (
            f", with {varied.fewest} to {varied.most} traced events" if varied.most > SEVERAL * varied.fewest else ""
        )
        yield f"Steps vary: half of them take {seconds(varied.low)} to {seconds(varied.high)}{counts}. Rows are means."


def _cut(text: str) -> str:
    return text if len(text) <= SOURCE else f"{text[: SOURCE - 1]}…"


def _rate(breakdown: Breakdown) -> str:
    """Format a step's FLOP, their rate and types, and the share of the machine's ceiling; "" without FLOP."""
    types, step = large(breakdown.types), breakdown.step["a"]
    flops, peaks = sum(breakdown.types.values()), [breakdown.peak(name) for name in types]
    if not flops:
        return ""
    least = sum(x / peak for x, peak in zip(types.values(), peaks, strict=True) if peak)
    share = f", {least / step:.0%} of this machine's ceiling ({scaled(flops / least, 'FLOP/s')})" if all(peaks) else ""
    return f": {scaled(flops, 'FLOP')} at {scaled(flops / step, 'FLOP/s')}{in_type(' and '.join(types))}{share}"


def _as_started(breakdown: Breakdown) -> Iterator[str]:
    """Yield a sentence that compares the step on the program's initial heap with freed memory kept."""
    if not breakdown.started:
        return
    started, faults = breakdown.started, breakdown.faults.get("P0", 0.0)
    difference, sure = tries.kept(breakdown)
    effect = f": keeping it changes a step by {signed(-difference)}" if sure else ""
    yield (
        f"On the initial heap, a step took {seconds(started['seconds'])} "
        f"[{seconds(started['low'])}, {seconds(started['high'])}], with {started['faults']:.0f} page faults instead of "
        f"{faults:.0f} with freed memory kept{effect}. Below, freed memory is kept, as tracing changes the default "
        "heap's behavior."
    )


def _kinds(breakdown: Breakdown) -> str:
    parts: list[str] = []
    for share in breakdown.kinds:
        if share.a < LARGE * breakdown.step["a"] and parts:
            break
        parts.append(f"{share.name} {share.a / breakdown.step['a']:.0%} ({_speed(share)})")
    return f"By kind of work: {', '.join(parts)}."


def _speed(share: Share) -> str:
    unit = "FLOP/s" if share.unit == kinds.FLOP else "B/s"
    if share.rate is None or share.unit not in (kinds.FLOP, kinds.BYTES):
        return seconds(share.a)
    of = f", {share.percent:.0%} of {share.ceiling}" if share.percent else ""
    return f"{seconds(share.a)}, {scaled(share.rate, unit)}{in_type(share.dtype)}{of}"


def _places(breakdown: Breakdown) -> Iterator[str]:
    """Yield a sentence on the largest modules of which no submodule takes most of the time."""
    leaves, modules = list[Module](), breakdown.modules
    for i, module in enumerate(modules):
        end = next((at for at in range(i + 1, len(modules)) if modules[at].depth <= module.depth), len(modules))
        if not any(x.total > 0.6 * module.total for x in modules[i + 1 : end]):
            leaves.append(module)
    large = sorted((x for x in leaves if x.total >= LARGE * breakdown.step["a"]), key=lambda x: -x.total)[:5]
    if large:
        yield "Largest modules: " + "; ".join(_module(module) for module in large) + "."


def _module(module: Module) -> str:
    phases = ", ".join(
        f"{phase} {seconds(module.phases[phase])}" for phase in PHASES if module.phases.get(phase, 0) > 0
    )
    times = f" ×{module.count}" if module.count > 1 else ""
    more = "; ".join(filter(None, [phases, f"mostly {module.column}"]))
    return f"{module.path}{times} {seconds(module.total)} ({more})"


def _operations(breakdown: Breakdown) -> Iterator[str]:
    """Yield a sentence on the longest operations of a step, alike ones of several rows together."""
    took, calls, where = (
        defaultdict[str, float](float),
        defaultdict[str, float](float),
        defaultdict[str, list[str]](list),
    )
    for cell in breakdown.cells:
        for operation in cell.operations:
            name = " ".join(filter(None, [operation.name, operation.shape]))
            took[name] += operation.seconds
            calls[name] += operation.calls * (cell.row not in where[name])
            where[name] += [cell.row] * (cell.row not in where[name])
    large = sorted((x for x in took if took[x] >= LARGE * breakdown.step["a"]), key=lambda x: -took[x])[:5]
    if large:
        parts = [f"{x}{_times(calls[x])} {seconds(took[x])} ({_rows(where[x])})" for x in large]
        yield f"Largest operations: {'; '.join(parts)}."


def _times(calls: float) -> str:
    return f" ×{calls:.0f}" if calls > 1 else ""


def _rows(rows: Sequence[str]) -> str:
    return rows[0] + (f" and {counted(len(rows) - 1, 'more row')}" if len(rows) > 1 else "")


def _lines(breakdown: Breakdown) -> Iterator[str]:
    """Yield a sentence on the longest lines of the program."""
    large = [line for line in breakdown.lines if line.seconds >= LARGE * breakdown.step["a"]][:3]
    if large:
        yield "Longest lines: " + "; ".join(_line(line) for line in large) + "."


def _line(line: Line) -> str:
    return f"{Path(line.file).name}:{line.number} {seconds(line.seconds)} ({_cut(line.text)})"


def _no_work(breakdown: Breakdown) -> Iterator[str]:
    """Yield a sentence on the overhead: kinds of work without arithmetic, from 1 % of a step on."""
    parts = [
        share for share in breakdown.kinds if share.name in tries.OVERHEAD and share.a >= 0.01 * breakdown.step["a"]
    ]
    if parts:
        yield "No arithmetic: " + ", ".join(f"{share.name} {seconds(share.a)}" for share in parts) + "."


def _looking(breakdown: Breakdown) -> Iterator[str]:
    levels = breakdown.levels["a"]
    words = {"P1": "spans", "P2": "samples", "P3": "both"}
    parts = [f"{words[name]} {max(0.0, levels[name] - 1):+.0%}" for name in words if name in levels]
    changed = ": tracing changed this step of tiny operations" if levels.get("P3", 1) > 1.15 else ""
    if (perf := breakdown.program.get("perf")) is not None:
        parts.append(f"perf used {perf:.1%} of a core")
    scaled = f", scaled by {breakdown.scale:.2f} to the plain step" if breakdown.scale < 1.0 else ""
    if parts:
        yield (
            f"Watching costs: {', '.join(parts)}{changed}. The step's time is of plain steps, all else of watched"
            f"{scaled}."
        )
