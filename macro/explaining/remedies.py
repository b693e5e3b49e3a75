"""Remedies for a difference: changes to a script or its start, and the commands that measure them.

Remedies of significant causes are suggested "to try", those of large but not significant causes "to check".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from macro.explaining.certain import LEAST
from macro.explaining.gap import Gap, mean, named_bars
from macro.explaining.tries import TEXTS
from macro.timing.entry import Entry, Plan
from macro.watching.watch import Side
from reports.explanation import Bar, Cell
from reports.units import seconds

MEMSET = "__memset"  # the C library's


@dataclass(frozen=True)
class Remedy:
    """A change that may reduce a difference; see remedies.toml."""

    name: str
    cause: str  # the kind of work (column) whose difference it may reduce
    do: str  # what the user types or edits
    measure: str  # the command that measures the saving, a template of net, framework and step

    def applies(self, cell: Cell, side: str, entry: Entry) -> bool:
        """Return whether the remedy applies to a cell; `side`, a or b, is the slower side with this entry."""
        return self.name not in WHERE or WHERE[self.name](cell, cell.seen[side] or "", entry)


def _torch(cell: Cell, seen: str, entry: Entry) -> bool:
    """Return whether the cell's time is spent in PyTorch, in the suite's step or a user's script."""
    return entry.framework.name.startswith("pytorch") or "torch" in seen


# Conditions of remedies that do not always apply, on the cell, the symbol with most of its samples, and the entry.
WHERE: Mapping[str, Callable[[Cell, str, Entry], bool]] = {
    "keep freed memory": lambda cell, seen, entry: entry.setting.heap == "default",
    "MKL's vendor check": lambda cell, seen, entry: seen.startswith("mkl_blas_def"),
    "weights stored as they are read": lambda cell, seen, entry: cell.how.get("a") != cell.how.get("b"),
    "one pass for the update": _torch,
    "products that do not clear first": lambda cell, seen, entry: (
        entry.framework.name.startswith("numpy") and seen.startswith(MEMSET)
    ),
    "gradients not set to zero": _torch,
    "threads": lambda cell, seen, entry: entry.setting.threads > 1,
}
REMEDIES = [Remedy(name, **texts) for name, texts in TEXTS["difference"].items()]


def sentences(gap: Gap, plan: Plan, sides: Sequence[Side]) -> list[str]:
    """Return remedies of significant causes, the largest saving first, then of causes that may be chance."""
    certain, doubtful = named_bars(gap, "cause"), _doubtful(gap)
    lines = [f"To try: {text}" for text in _lines(gap, certain, plan, sides)]
    return [*lines, *(f"To check (may be chance): {text}" for text in _lines(gap, doubtful, plan, sides))]


def _doubtful(gap: Gap) -> list[Bar]:
    """Return large causes that are significant alone but not after correction for multiple tests."""
    least = LEAST * max(gap.step.values())
    return [x for x in gap.bars["cause"] if x.alone and not x.sure and abs(x.gap) >= least]


def _lines(gap: Gap, bars: Sequence[Bar], plan: Plan, sides: Sequence[Side]) -> Iterator[str]:
    batch = f" --batch {plan.batch}" if plan.batch != plan.network.batch else ""
    for remedy, most, entry in sorted(_applicable(gap, bars, sides), key=lambda x: -x[1]):
        net, framework = plan.named, entry.framework.name
        command = remedy.measure.format(net=net, framework=framework, step=f"{net} {framework}{batch}")
        witness = _account(sides) if remedy.cause == "OS memory" and bars and not bars[0].sure else ""
        yield (
            f"{remedy.name}: saves up to {seconds(most)} of a {plan.phase} of {framework}{witness}. Do: {remedy.do}. "
            f"Measure: {command}"
        )


def _account(sides: Sequence[Side]) -> str:
    """Format the operating system's own accounting of plain steps, a cross-check of OS memory."""
    times = [mean([x for process in side.processes for x in process.system]) for side in sides]
    parts = " against ".join(
        f"{seconds(took)} in {side.entry.framework.name}" for took, side in zip(times, sides, strict=True)
    )
    return f" (the operating system's accounting of plain steps: {parts})"


def _applicable(gap: Gap, bars: Sequence[Bar], sides: Sequence[Side]) -> Iterator[tuple[Remedy, float, Entry]]:
    """Yield each remedy of these causes, the most seconds that it saves, and the slower side's entry."""
    causes = {bar.name: bar for bar in bars}
    for remedy in REMEDIES:
        if (bar := causes.get(remedy.cause)) is None:
            continue
        side = "a" if bar.gap > 0 else "b"
        entry = sides["ab".index(side)].entry
        sign = 1 if bar.gap > 0 else -1
        cells = [cell for cell in gap.cells if cell.column == remedy.cause and sign * cell.gap > 0]
        most = sum(abs(cell.gap) for cell in cells if remedy.applies(cell, side, entry))
        if most > 0:
            yield remedy, most, entry
