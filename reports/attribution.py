"""An attribution as a person reads it: sentences, cells, waterfalls, closures, what is not known."""

from __future__ import annotations

from reports import units
from reports.explanation import Cell, Explanation
from reports.record import Note, Run
from reports.store import Unreadable

TOPIC = "attribution"  # of its note
SHOWN = 0.01  # of the larger step: smaller cells are summed in one line


def note(explanation: Explanation) -> Note:
    """As a record of a run file."""
    import msgspec

    return Note(TOPIC, msgspec.to_builtins(explanation))


def of(run: Run) -> list[Explanation]:
    """The explanations that a run holds. Raises Unreadable for one with fields of another kind."""
    import msgspec

    try:
        return [msgspec.convert(note.data, Explanation) for note in run.notes if note.topic == TOPIC]
    except msgspec.ValidationError as error:
        raise Unreadable(f"the run holds an attribution that is none: {error}") from None


def text(explained: Explanation) -> str:
    """What a person reads: sentences, cells, waterfalls, closures."""
    least = SHOWN * max(explained.step.values())
    lines = [*explained.sentences, "", *_table(explained, least)]
    for what, bars in explained.waterfall.items():
        kept = [(name, value) for name, value in bars if abs(value) >= least / 5]
        lines.append(f"by {what}: " + ", ".join(f"{name} {units.signed(value)}" for name, value in kept))
    lines += [f"{explained.name(side)}: {_closures(explained, side)}" for side in "ab"]
    for side, products in explained.products.items():
        if products:
            calls = ", ".join(f"{x['trans'].upper()} {x['m']}×{x['n']}×{x['k']}" for x in products)
            lines.append(f"{explained.name(side)}: products that its libraries logged, M×N×K: {calls}")
    for x in explained.headroom:
        lines.append(
            f"{x.row}: {units.seconds(x.took)} in the step; {x.best} by itself, the fastest here, operands out of "
            f"cache, {units.seconds(x.seconds)}: {x.left:.0%} is left ({x.repeat})"
        )
    lines += [_witnesses(explained), *explained.conditions]
    lines.append("A category is a candidate saving until it is swapped: removing one changes the others.")
    return "\n".join(lines)


def _table(explained: Explanation, least: float) -> list[str]:
    """The cells of at least `least` seconds, the others as one line, the residual, the steps."""
    shown = [c for c in explained.cells if max(c.a, c.b) >= least]
    rest = [c for c in explained.cells if max(c.a, c.b) < least]
    rows = [_row(c.row, c.column, c.a, c.b, c) for c in shown]
    rows += [_row(f"{len(rest)} smaller cells", "", sum(c.a for c in rest), sum(c.b for c in rest))] if rest else []
    rows.append(_row("residual", "", explained.residual["a"], explained.residual["b"]))
    rows.append(_row("step, plain", explained.clock, explained.step["a"], explained.step["b"]))
    return _aligned(
        ["row", "column", f"{explained.a}, ms", f"{explained.b}, ms", "difference", "95 %", "work", "rate"], rows
    )


def _row(row: str, column: str, a: float, b: float, cell: Cell | None = None) -> list[str]:
    """A line of the table, in milliseconds; `cell`: what is known of one beside its seconds."""
    line = [row, column, f"{a * 1e3:.2f}", f"{b * 1e3:.2f}", f"{(a - b) * 1e3:+.2f}"]
    if cell is None:
        return [*line, "", "", ""]
    line.append(f"[{cell.low * 1e3:+.2f}, {cell.high * 1e3:+.2f}]")
    return line + ["–" if part is None else f"{part * 1e3:+.2f}" for part in (cell.work, cell.rate)]


def _aligned(head: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head))]
    lines = [
        "  ".join(f"{word:{'<' if i < 2 else '>'}{widths[i]}}" for i, word in enumerate(line)).rstrip()
        for line in (head, *rows)
    ]
    return [lines[0], "─" * len(lines[0]), *lines[1:]]


def _closures(explained: Explanation, side: str) -> str:
    closed = [f"{name} {value:.3f}" for name, value in explained.closure[side].items() if value is not None]
    looked = [f"{name} {value:.3f}" for name, value in explained.levels[side].items()]
    return f"closure: {', '.join(closed)}; a step over a plain one: {', '.join(looked)}"


def _witnesses(explained: Explanation) -> str:
    """How many rows agree by trace and replay; those that do not."""
    disagree = [x for x in explained.agreement if x.verdict == "disagree"]
    agree = sum(x.verdict == "agree" for x in explained.agreement)
    return f"two witnesses: {agree} rows agree, {len(disagree)} disagree" + "".join(
        f"; {explained.name(x.side)} {x.row}: trace {units.seconds(x.trace)}, replay {_replay(x.replay)}"
        for x in disagree
    )


def _replay(seconds: float | None) -> str:
    return "–" if seconds is None else units.seconds(seconds)
