"""An attribution as a person reads it: sentences, cells, waterfalls, closures, what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reports import units
from reports.record import Run

TOPIC = "attribution"  # of its note
SHOWN = 0.01  # of the larger step: smaller cells are summed in one line


def of(run: Run) -> list[dict[str, Any]]:
    """The attributions of a run: the documents of `python -m macro explain`."""
    return [note.data for note in run.notes if note.topic == TOPIC]


def text(told: Mapping[str, Any]) -> str:
    """What a person reads: sentences, cells, waterfalls, closures."""
    lines = [*told["sentences"], ""]
    least = SHOWN * max(told["step"].values())
    shown = [c for c in told["cells"] if max(c["a"], c["b"]) >= least]
    rest = [c for c in told["cells"] if max(c["a"], c["b"]) < least]
    a, b = (sum(c[side] for c in rest) for side in "ab")
    table = [_cells(c["row"], c["column"], c["a"], c["b"], c) for c in shown]
    table += [_cells(f"{len(rest)} smaller cells", "", a, b)] if rest else []
    table += [_cells("residual", "", told["residual"]["a"], told["residual"]["b"])]
    table += [_cells("step, plain", told["clock"], told["step"]["a"], told["step"]["b"])]
    steps = [f"{told[side]}, ms" for side in "ab"]
    lines += _table(["row", "column", *steps, "difference", "95 %", "work", "rate"], table)
    for what, bars in told["waterfall"].items():
        kept = [(name, value) for name, value in bars if abs(value) >= least / 5]
        lines.append(f"by {what}: " + ", ".join(f"{name} {units.signed(value)}" for name, value in kept))
    for side in "ab":
        lines.append(f"{told[side]}: " + _closures(told, side))
    for side, products in told.get("products", {}).items():
        if products:
            calls = ", ".join(f"{x['trans'].upper()} {x['m']}×{x['n']}×{x['k']}" for x in products)
            lines.append(f"{told[side]}: products that its libraries logged, M×N×K: {calls}")
    for x in told["headroom"]:
        lines.append(
            f"{x['row']}: {units.seconds(x['took'])} in the step; {x['best']} by itself, operands out of cache, "
            f"{units.seconds(x['seconds'])}: {x['left']:.0%} is left ({x['repeat']})"
        )
    disagree = [x for x in told["agreement"] if x["verdict"] == "disagree"]
    agree = sum(x["verdict"] == "agree" for x in told["agreement"])
    lines.append(
        f"two witnesses: {agree} rows agree, {len(disagree)} disagree"
        + "".join(
            f"; {told[x['side']]} {x['row']}: trace {units.seconds(x['trace'])}, replay {units.seconds(x['replay'])}"
            for x in disagree
        )
    )
    lines += told["conditions"]
    lines.append("A category is a candidate saving until it is swapped: removing one changes the others.")
    return "\n".join(lines)


def _cells(row: str, column: str, a: float, b: float, cell: Mapping[str, Any] | None = None) -> list[str]:
    """A line of the table, in milliseconds; `cell`: what is known of one beside its seconds."""
    told = [row, column, f"{a * 1e3:.2f}", f"{b * 1e3:.2f}", f"{(a - b) * 1e3:+.2f}"]
    if cell is None:
        return [*told, "", "", ""]
    told.append(f"[{cell['low'] * 1e3:+.2f}, {cell['high'] * 1e3:+.2f}]")
    return told + ["–" if cell[x] is None else f"{cell[x] * 1e3:+.2f}" for x in ("work", "rate")]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head))]
    lines = [
        "  ".join(f"{word:{'<' if i < 2 else '>'}{widths[i]}}" for i, word in enumerate(line)).rstrip()
        for line in (head, *rows)
    ]
    return [lines[0], "─" * len(lines[0]), *lines[1:]]


def _closures(told: Mapping[str, Any], side: str) -> str:
    closed = [f"{name} {value:.3f}" for name, value in told["closure"][side].items() if value is not None]
    looked = [f"{name} {value:.3f}" for name, value in told["levels"][side].items()]
    return f"closure: {', '.join(closed)}; a step over a plain one: {', '.join(looked)}"
