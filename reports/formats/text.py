"""The report on a terminal: the answer, the ratios, the kernels that ran, the errors."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING

from reports import busy, findings, steps, table
from reports.record import Run

if TYPE_CHECKING:
    from rich.console import Console

ENDINGS = (".txt",)
WIDTH, WIDE = 100, 132  # columns where the output is no terminal: of tables, and of a table with commands
WORD = 40  # characters of the longest word that is not broken if there is room
# Places where cells break: between the values of a pair, between words except before a unit, inside names, anywhere.
# Each way is tried only if the previous one leaves a cell too wide.
VALUES, WORDS = r"(?s).+?(?:, | / |$)", r"(?s).+?(?: (?!(?:[nµm]?s|%)(?:[, ]|$))|$)"
PARTS, ANYWHERE = r"(?s).+?(?:[-/]| (?!(?:[nµm]?s|%)(?:[, ]|$))|$)", r"(?s)."
BREAKS = {VALUES: 2, WORDS: 2, PARTS: 1, ANYWHERE: 1}  # and the gap between columns: narrow before a name breaks
RAN = "Code that ran (operands row-major; NN = sgemm(N,N): the equivalent column-major BLAS call):"
CEILINGS = "Ceilings measured in the same rounds (of ceiling: a kernel's share of these):"
WRONG = "Errors, skipped cases and warnings:"


def write(run: Run, stream: IO[str], *, verbose: bool = False) -> None:
    console, wide = (_console(stream, width) for width in (WIDTH, WIDE))
    _bold(console, findings.gates(run))
    if disturbed := busy.sentence(run):
        console.print(disturbed, style="bold", markup=False, soft_wrap=True)
    _bold(console, findings.notes(run))
    attributions = findings.texts(run, full=verbose)
    for text in attributions:
        console.print(text, markup=False, soft_wrap=True)
    ratios = table.comparisons(run)
    # Some texts contain these ratios and times.
    texts_suffice = bool(findings.tables(run) or run.predictions) and not verbose
    if ratios.rows and not texts_suffice:
        _table(console, ratios)
        if finding := findings.sentence(run):
            console.print(finding, markup=False, soft_wrap=True)
    timed = steps.steps(run)
    if timed and not texts_suffice:
        _table(wide, timed)
    cases = table.results(run)
    if cases.rows and (verbose or not (ratios.rows or attributions or timed)):
        _table(wide, cases)
    for line in findings.unfinished(run):
        console.print(line, markup=False, soft_wrap=True)
    for line in (*_sections(run), *_last(run, attributed=bool(attributions))):
        console.print(line, markup=False, soft_wrap=True)


def _bold(console: Console, sentences: Sequence[str]) -> None:
    for sentence in sentences:
        console.print(sentence, style="bold", markup=False)


def _console(stream: IO[str], width: int) -> Console:
    """Return a console as wide as the terminal, or `width` wide if the stream is not a terminal.

    A closed pipe raises BrokenPipeError; rich's console would exit the process before documents are
    written."""
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    return Piped(file=stream, highlight=False, width=None if stream.isatty() else width)


def _sections(run: Run) -> Iterator[str]:
    """Yield the lines of three titled sections: the kernels that ran, the ceilings, the errors."""
    for title, lines in ((RAN, table.kernels(run)), (CEILINGS, table.ceilings(run)), (WRONG, table.troubles(run))):
        if lines:
            yield title
            yield from (f"  {line}" for line in (["; ".join(lines)] if title == CEILINGS else lines))


def _last(run: Run, *, attributed: bool) -> Iterator[str]:
    """Yield the closing lines on the run as a unit.

    Clocks, environment variables, the self-test, the machine, the intervals' scope, the time spent."""
    selftest = () if attributed else table.selftest(run)
    yield from filter(None, (table.burst(run), table.steered(run), *selftest))
    facts = run.environment.facts
    last = [f"{facts.get('device', {}).get('model')}, {facts.get('cores')} cores"]
    if not attributed:
        scopes = list(dict.fromkeys(c.scope for c in run.comparisons)) or ["within this process"]
        last += filter(None, (f"intervals hold {', '.join(scopes)}", table.between(run), table.seconds(run)))
    yield f"{'; '.join(last)}."


def _table(console: Console, content: table.Table) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    widths, gap = _widths(content, console.width)
    shown = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, gap - 1, 0, 0),
        title=content.title,
        title_justify="left",
    )
    head, *rows = (
        ["\n".join(map(str.rstrip, _lines(cell, width))) for cell, width in zip(cells, widths, strict=True)]
        for cells in (content.head, *content.rows)
    )
    for i, (name, width) in enumerate(zip(head, widths, strict=True)):
        shown.add_column(name, justify="left" if i < 2 else "right", overflow="fold", width=width)
    for row in rows:
        shown.add_row(*map(Text, row))
    console.print(shown)
    console.print()
    for note in content.notes:
        console.print(note, markup=False, soft_wrap=True)


def _widths(content: table.Table, room: int) -> tuple[list[int], int]:
    """Return the width of each column, and the gap between two columns.

    The widest columns shrink first, as far as the first sufficient way of breaking cells allows."""
    columns = list(zip(content.head, *content.rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    for way, gap in BREAKS.items():
        least = [_least(column, way) for column in columns]
        while sum(widths) + gap * (len(widths) - 1) > room:
            wide = [i for i, width in enumerate(widths) if width > least[i]]
            if not wide:
                break
            widths[max(wide, key=widths.__getitem__)] -= 1
        else:
            return widths, gap
    return widths, gap


def _least(column: Sequence[str], way: str) -> int:
    """Return the least width of a column whose cells are broken in this way, unless it is never broken."""
    head, *cells = column
    pieces = [piece for cell in (head, *cells) for piece in re.findall(way, cell)]
    width = min(WORD, max((len(piece.rstrip()) for piece in pieces), default=0))
    return max(width, *map(len, cells)) if head in table.UNBROKEN else width


def _lines(cell: str, width: int, ways: Sequence[str] = tuple(BREAKS)) -> list[str]:
    """Break a cell into lines of this width, in the first of the ways that suffices.

    Trailing blanks do not count."""
    if len(cell.rstrip()) <= width or not ways:
        return [cell]
    way, *others = ways
    lines: list[str] = []
    for piece in re.findall(way, cell):
        if lines and len(lines[-1] + piece.rstrip()) <= width:
            lines[-1] += piece
        else:
            lines += _lines(piece, width, others)
    return lines
