"""An attribution as text: sentences, causes, cells, limits, quality."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reports import quality, units
from reports.explanation import RESIDUAL, Bar, Cell, Explanation
from reports.record import Note, Run
from reports.store import Unreadable

TOPIC = "attribution"  # of its note
NAMED = 4  # rows of one kernel in a sentence
SHOWN = 0.01  # share of the larger step: smaller cells are summed by cause
WIDTH, LEAST = 100, 16  # columns of a table, and of the names in it at least
NAME = 20  # characters of a side's name at the head of a column, at most
CHANCE, ALONE = "may be chance", "†"
ALONE_SENTENCE = f"{ALONE} its 95 % interval excludes 0; certain: also with all causes tested at once"
PARTS = "work, rate"
LEGEND = {  # rows and causes whose names need an explanation; the last two are always printed
    "dgrad": "product for the gradient of a layer's input",
    "wgrad": "product for the gradient of a layer's weights",
    "in no span": "outside all operations that the framework's tracer recorded",
    "packing": "copying operands into the order in which a library's kernel reads them",
    "clear": "filling an array with zeros, by a call or inside one",
    "dispatch": "the framework's own code between kernels",
    "framework": "operations of no layer",
    "tracer": "the framework's profiler",
    "interpreter": "Python",
    RESIDUAL: "time of a plain step minus all rows",
    PARTS: "the difference due to the amount of work, and to its speed",
}


def note(explanation: Explanation, stopped: str | None = None) -> Note:
    """Return an explanation's note for a run file. `stopped`: why the explanation was interrupted."""
    import msgspec

    return Note(TOPIC, msgspec.to_builtins(explanation) | ({"stopped": stopped} if stopped else {}))


def of(run: Run) -> list[Explanation]:
    """Return a run's explanations, without interrupted ones that later ones replace. Raises Unreadable."""
    import msgspec

    notes = [x for x in run.notes if x.topic == TOPIC]
    try:
        return [msgspec.convert(x.data, Explanation) for x in notes if x is notes[-1] or not x.data.get("stopped")]
    except msgspec.ValidationError as error:
        raise Unreadable(f"the run, of commit {run.commit}, holds an invalid attribution: {error}") from None


def text(explained: Explanation) -> str:
    """Return the text of an attribution, with all its parts."""
    least = SHOWN * max(explained.step.values())
    lines = [*explained.sentences, ""]
    lines += [*_causes(explained, least), "", *_cells(explained, least)]
    lines += [_legend(explained, least)]
    lines += [_by(what, explained.bars[what], least) for what in explained.waterfall if what != "cause"]
    for side, products in explained.products.items():
        if products:
            calls = ", ".join(f"{x['trans'].upper()} {x['m']}×{x['n']}×{x['k']}" for x in products)
            lines.append(f"{explained.name(side)}: products that its libraries logged, M×N×K: {calls}")
    lines += [line for side in explained.algorithms for line in _algorithms(explained, side)]
    for x in explained.headroom:
        lines.append(
            f"{x.row}: {units.seconds(x.took)} in the step; {x.best} by itself, the fastest measured, operands out of "
            f"cache, {units.seconds(x.seconds)}: {x.left:.0%} could be saved ({x.repeat})"
        )
    lines += [*quality.lines(explained), *explained.conditions]
    lines.append("A cause is only a candidate saving, as removing one changes the others.")
    return "\n".join([*lines, quality.sentence(explained)])


def _algorithms(explained: Explanation, side: str) -> Iterator[str]:
    """Yield one line with a side's convolution kernels and their rows, or nothing without kernels."""
    rows: dict[str, list[str]] = {}
    for row, kernel in explained.algorithms[side]:
        rows.setdefault(kernel, []).append(row)
    listed = "; ".join(f"{kernel}: {units.first(names, NAMED)}" for kernel, names in rows.items())
    if listed:
        yield f"{explained.name(side)}: convolutions as its library logged them: {listed}"


def _causes(explained: Explanation, least: float) -> list[str]:
    """Return the table of the gap by cause.

    Causes of at least `least` seconds, the others as one line, the residual, the steps."""
    unit, bars = Unit.of(explained), explained.bars["cause"]
    shown = [bar for bar in bars if max(bar.a, bar.b) >= least or bar.name == RESIDUAL]
    rest = [bar for bar in bars if bar not in shown]
    if rest:
        a, b = sum(bar.a for bar in rest), sum(bar.b for bar in rest)
        shown.insert(-1, Bar(f"{len(rest)} smaller ones", a, b, None, None, False))
    lines = [
        [bar.name, *unit.row(bar.a, bar.b), unit.interval(bar.low, bar.high), _verdict(bar, least)] for bar in shown
    ]
    step = explained.step
    lines.append(["step", *unit.row(step["a"], step["b"]), unit.interval(*explained.interval), ""])
    table = _sided(explained, ["cause"], ["95 %", ""], lines)
    return [*table, ALONE_SENTENCE] if any(line[-1] == CHANCE + ALONE for line in lines) else table


def _verdict(bar: Bar, least: float) -> str:
    """Return `certain` or `may be chance`; empty for a difference that is untested or below `least`."""
    if bar.name == RESIDUAL or bar.low is None or abs(bar.gap) < least:
        return ""
    return "certain" if bar.sure else CHANCE + ALONE * bar.alone


def _cells(explained: Explanation, least: float) -> list[str]:
    """Return the table of cells of at least `least` seconds, with sums of the smaller cells.

    Smaller cells are summed by cause if that sum reaches `least`, else all together."""
    unit = Unit.of(explained)
    shown = [c for c in explained.cells if max(c.a, c.b) >= least]
    small = [c for c in explained.cells if max(c.a, c.b) < least]
    words = {c.column: sum(max(x.a, x.b) for x in small if x.column == c.column) >= least for c in small}
    rest: dict[str, list[Cell]] = {}
    for cell in sorted(small, key=lambda c: not words[c.column]):
        rest.setdefault(cell.column if words[cell.column] else "all others", []).append(cell)
    lines = [
        [c.row, c.column, *unit.row(c.a, c.b), unit.interval(c.low, c.high), unit.part(c.work), unit.part(c.rate)]
        for c in shown
    ]
    for column, cells in rest.items():
        a, b = sum(c.a for c in cells), sum(c.b for c in cells)
        lines.append([f"{len(cells)} smaller", column, *unit.row(a, b), "", "", ""])
    return _sided(explained, ["row", "cause"], ["95 %", "work", "rate"], lines)


def _sided(explained: Explanation, left: list[str], right: list[str], rows: list[list[str]]) -> list[str]:
    """Return a table with a column for each side: A and B if their names are long or leave no room.

    `left`, `right`: heads of the other columns."""
    unit, names = Unit.of(explained), (explained.a, explained.b)
    table = aligned([*left, *unit.head(*names), *right], rows, len(left), room=None)
    if max(map(len, names)) <= NAME and max(map(len, table)) <= WIDTH:
        return table
    return [f"A: {explained.a}; B: {explained.b}", *aligned([*left, *unit.head("A", "B"), *right], rows, len(left))]


@dataclass(frozen=True)
class Unit:
    """A unit of the seconds of one table, chosen by the size of the step."""

    name: str
    seconds: float
    places: int

    @classmethod
    def of(cls, explained: Explanation) -> Unit:
        """Return the unit for the longer step."""
        return cls.of_step(max(explained.step.values()))

    @classmethod
    def of_step(cls, step: float) -> Unit:
        """Return the unit in which two decimal places show a hundredth of the step."""
        if step >= 10:
            return cls("s", 1.0, 3)
        return cls("ms", 1e-3, 2) if step >= 0.01 else cls("µs", 1e-6, 1 if step >= 1e-4 else 2)

    def head(self, a: str, b: str) -> list[str]:
        """Return the column heads for the cells of `row`, for sides of these names."""
        return [f"{a}, {self.name}", f"{b}, {self.name}", "difference"]

    def number(self, value: float, sign: str = "") -> str:
        """Return a number without its unit; zero has no sign."""
        number = f"{value / self.seconds:{sign}.{self.places}f}"
        return number if float(number) else f"{0:.{self.places}f}"

    def row(self, a: float, b: float) -> list[str]:
        """Return A, B and their difference."""
        return [self.number(a), self.number(b), self.number(a - b, "+")]

    def interval(self, low: float | None, high: float | None) -> str:
        """Return the interval of a difference, or an empty text if it is unknown."""
        return "" if low is None or high is None else f"[{self.number(low, '+')}, {self.number(high, '+')}]"

    def part(self, value: float | None) -> str:
        """Return the part of a difference due to work or to rate; a dash if the cell has neither."""
        return "–" if value is None else self.number(value, "+")


def aligned(head: list[str], rows: list[list[str]], left: int, room: int | None = WIDTH) -> list[str]:
    """Return the lines of a table. `left`: number of leading columns that are aligned left.

    In a table that is wider than `room`, the names in the first column are cut in their middle."""
    widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head))]
    over = sum(widths) + 2 * (len(widths) - 1) - (room or 0)
    if room and over > 0:
        widths[0] = max(widths[0] - over, min(widths[0], LEAST))
        head, *rows = ([_cut(line[0], widths[0]), *line[1:]] for line in (head, *rows))
    lines = [
        "  ".join(f"{word:{'<' if i < left else '>'}{widths[i]}}" for i, word in enumerate(line)).rstrip()
        for line in (head, *rows)
    ]
    return [lines[0], "─" * max(map(len, lines)), *lines[1:]]


def _cut(text: str, width: int) -> str:
    """Cut a text in its middle to at most `width` characters."""
    first = width // 2
    return text if len(text) <= width else f"{text[:first]}…{text[len(text) - (width - 1 - first) :]}"


def _legend(explained: Explanation, least: float) -> str:
    """Return the line that explains the words that occur in the tables."""
    shown = [cell for cell in explained.cells if max(cell.a, cell.b) >= least]
    names = {cell.column for cell in shown} | {word for cell in shown for word in LEGEND if word in cell.row}
    meanings = [f"{word}: {meaning}" for word, meaning in LEGEND.items() if word in names | {RESIDUAL, PARTS}]
    return f"words: {'; '.join(meanings)} (docs/explain.md, docs/glossary.md)"


def _by(what: str, bars: Sequence[Bar], least: float) -> str:
    """Return the line of differences by layer or phase, without those below a fifth of `least`."""
    kept = [bar for bar in bars if abs(bar.gap) >= least / 5]
    return f"by {what}: " + ", ".join(f"{bar.name} {units.signed(bar.gap)}{' *' * bar.sure}" for bar in kept)
