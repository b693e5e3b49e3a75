"""One program's step as text: sentences, kinds of work, modules, cross-checks, quality."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports import busy, units
from reports.attribution import Unit, aligned
from reports.explanation import OPERATING, Breakdown, Fastest, Share, in_type
from reports.quality import NOWHERE, UNNAMED, Measure, graded
from reports.record import Note, Run
from reports.store import Unreadable

TOPIC = "step"  # topic of the note
SHOWN = 0.01  # share of the step: smaller kinds and outermost modules are summed, inner modules left out
WORDS = 46  # characters of a module's name
BACKWARD = ("backward", "double backward", "recompute")
FAULT = 0.25e-6  # seconds of a page fault, at least
ABSURD = 1.2  # share of a ceiling above which the quality is weak
RATES = {"FLOP": "FLOP/s", "bytes": "B/s", "page faults": "faults/s"}


def note(breakdown: Breakdown) -> Note:
    """Return a breakdown's note for a run file."""
    import msgspec

    return Note(TOPIC, _rename(msgspec.to_builtins(breakdown), "attributed", "said"))


def of(run: Run) -> list[Breakdown]:
    """Return the breakdowns of a run. Raises Unreadable for a breakdown with fields of unexpected types."""
    import msgspec

    try:
        return [
            msgspec.convert(_rename(note.data, "said", "attributed"), Breakdown)
            for note in run.notes
            if note.topic == TOPIC
        ]
    except msgspec.ValidationError as error:
        raise Unreadable(f"the run, of commit {run.commit}, holds an invalid step: {error}") from None


def _rename(data: Any, name: str, other: str) -> Any:
    """Return a breakdown's data with `name` renamed to `other`: run files have `attributed` as `said`."""
    if isinstance(data, dict):
        return {(other if key == name else key): _rename(value, name, other) for key, value in data.items()}
    return [_rename(row, name, other) for row in data] if isinstance(data, list | tuple) else data


def text(breakdown: Breakdown) -> str:
    """Return a breakdown as text."""
    lines = [*breakdown.sentences, "", *_kinds(breakdown), *_alarms(breakdown), "", *_modules(breakdown), ""]
    lines += [_fastest(fastest) for fastest in breakdown.fastest]
    lines += _repeats(breakdown)
    lines += [*_faults(breakdown), *_witnesses(breakdown), *breakdown.conditions]
    lines.append("A time is only a candidate saving, as removing one changes the others.")
    return "\n".join([*lines, quality(breakdown)])


def _fastest(x: Fastest) -> str:
    left = units.seconds(max(0.0, x.left))
    return (
        f"{x.row}: {units.seconds(x.took)} a call in the step; {x.variant} by itself, the fastest measured, operands "
        f"out of cache, {units.seconds(x.seconds)}: {left} of a step could be saved ({x.repeat})"
    )


def unit_of(breakdown: Breakdown) -> Unit:
    """Return the unit of time in a breakdown's tables."""
    return Unit.of_step(breakdown.step["a"])


def _kinds(breakdown: Breakdown) -> list[str]:
    unit, step = unit_of(breakdown), breakdown.step["a"]
    shown = _shown(breakdown)
    rest = [share for share in breakdown.kinds if share.a < SHOWN * step]
    rows = [_kind(share, unit, step) for share in shown]
    if rest:
        small = sum(share.a for share in rest)
        rows.append([f"{len(rest)} smaller kinds", unit.number(small), f"{small / step:.0%}", "", "", "", ""])
    residual = breakdown.residual["a"]
    rows.append(["residual", unit.number(residual, "+"), f"{residual / step:+.0%}", "", "", "", ""])
    low, high = breakdown.interval
    rows.append(["step", unit.number(step), "100%", f"[{unit.number(low)}, {unit.number(high)}]", "", "", ""])
    head = ["kind of work", unit.name, "share", "95 %", "rate", "of ceiling", "above it"]
    return aligned(head, rows, left=1)


def _kind(share: Share, unit: Unit, step: float) -> list[str]:
    rate = units.scaled(share.rate, RATES[share.unit]) if share.rate and share.unit in RATES else ""
    return [
        share.name + in_type(share.dtype),
        unit.number(share.a),
        f"{share.a / step:.0%}",
        f"[{unit.number(max(0.0, share.low))}, {unit.number(share.high)}]",
        rate,
        f"{share.percent:.0%}{' !' * share.is_above}" if share.percent else "",
        unit.number(share.left) if share.left is not None and not share.is_above else "",
    ]


def _alarms(breakdown: Breakdown) -> list[str]:
    """Return a warning for each shown kind of work that exceeds its ceiling."""
    causes = {
        "memory": "most of its data was in a cache",
        "multiply-adds": "the work is less, or less precise, than shapes and types imply (Winograd, "
        "torch.set_float32_matmul_precision)",
    }
    return [
        f"! {share.name} is {share.percent:.0%} of its ceiling, which is impossible: there was other load while the "
        f"ceiling was measured, or {causes.get(share.ceiling or '', 'its work is less')}."
        for share in _shown(breakdown)
        if share.is_above
    ]


def _shown(breakdown: Breakdown) -> list[Share]:
    """Return the kinds of work that are large enough for their own row in the table."""
    return [share for share in breakdown.kinds if share.a >= SHOWN * breakdown.step["a"]]


def _modules(breakdown: Breakdown) -> list[str]:
    """Return the table of the module tree, with modules of at least a hundredth of the step."""
    unit, step = unit_of(breakdown), breakdown.step["a"]
    shown = [x for x in breakdown.modules if x.total >= SHOWN * step]
    rows = []
    for module in shown:
        name = module.name if len(module.name) <= WORDS else f"{module.name[: WORDS - 1]}…"
        forward, backward = module.phases.get("forward", 0.0), sum(module.phases.get(x, 0.0) for x in BACKWARD)
        rest = module.total - forward - backward
        parts = [unit.number(x) if x >= SHOWN * step / 10 else "" for x in (forward, backward, rest)]
        rows.append(
            ["  " * module.depth + name, *parts, unit.number(module.total), f"{module.total / step:.0%}", module.column]
        )
    hidden = sum(x.total for x in breakdown.modules if x.depth == 0 and x.total < SHOWN * step)
    if hidden:
        rows.append(["smaller ones", "", "", "", unit.number(hidden), f"{hidden / step:.0%}", ""])
    return aligned([f"module, {unit.name}", "forward", "backward", "rest", "all", "share", "mostly"], rows, left=1)


def _repeats(breakdown: Breakdown) -> list[str]:
    """Return the commands that measure the largest operations alone."""
    named = {fastest.repeat for fastest in breakdown.fastest}
    cells = {cell.repeat: cell for cell in reversed(breakdown.cells) if cell.repeat and cell.repeat not in named}
    large = [cell for cell in reversed(cells.values()) if cell.a >= 2 * SHOWN * breakdown.step["a"]][:3]
    return [f"Alone: {cell.row}, {cell.column}: {cell.repeat}" for cell in large]


def _faults(breakdown: Breakdown) -> list[str]:
    words = {
        "started": "on the initial heap",
        "P0": "plain",
        "P1": "with spans",
        "P2": "with samples",
        "P3": "with both",
    }
    parts = [f"{words[level]} {count:.0f}" for level, count in breakdown.faults.items() if level in words]
    return [f"page faults per step: {', '.join(parts)}"] if parts else []


def _witnesses(breakdown: Breakdown) -> list[str]:
    lines = []
    for x in breakdown.witnesses:
        first, _, second = x.words.partition("; ")
        attributed = f"{units.seconds(x.attributed)} by {first}, " if x.attributed is not None else f"{first}, "
        lines.append(f"{x.name}: {attributed}{units.seconds(x.seen)} by {second or 'plain steps'}: {x.verdict}")
    return lines


def quality(breakdown: Breakdown) -> str:
    """Return the sentence on a breakdown's quality."""
    return graded(_measures(breakdown), most=3)


def _measures(breakdown: Breakdown) -> Sequence[Measure]:
    step = breakdown.step["a"]
    vague = (
        sum(x.a for x in breakdown.cells if x.row == NOWHERE or x.column.startswith((*UNNAMED, "interpreter"))) / step
    )
    left, looking = abs(breakdown.residual["a"]) / step, breakdown.levels["a"].get("P3", 1.0) - 1
    left = max(left, 1 / breakdown.scale - 1)
    faults = abs(breakdown.faults.get("P3", 0.0) - breakdown.faults.get("P0", 0.0)) * FAULT / step
    apart = [witness.name for witness in breakdown.witnesses if witness.verdict == "disagree"]
    above = [share for share in _shown(breakdown) if share.is_above]
    taken = breakdown.busy or 0.0
    longer = "a quiet machine" if taken > busy.TAKEN else "a longer --budget"
    return (
        Measure(vague, 0.1, 0.3, f"{vague:.1%} of a step is dispatch, Python or in no span", "see the longest lines"),
        Measure(left, 0.05, 0.1, f"rows differ from the plain step by {left:.1%}", longer),
        Measure(looking, 0.1, 0.3, f"watching makes a step {looking:.0%} longer", "plain steps count"),
        Measure(faults, 0.02, 0.1, "tracing changes the page faults of a step", "--heap keep"),
        Measure(
            float(bool(apart)),
            0.5,
            2.0,
            "a cross-check disagrees: " + " and ".join(f"`{name}`" for name in apart),
            "--heap keep" if OPERATING in apart else longer,
        ),
        Measure(
            taken, busy.TAKEN, busy.HEAVY, f"other processes took {taken:.0%} of its processor time", "a quiet machine"
        ),
        *(Measure(x.percent or 0.0, 1.0, ABSURD, f"{x.name} beats its ceiling", "a quiet machine") for x in above),
    )
