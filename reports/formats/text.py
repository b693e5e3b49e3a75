"""The report on a terminal: the answer, the ratios, what ran, what went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from reports import attribution, findings, table
from reports.record import Run

if TYPE_CHECKING:
    from rich.console import Console

WIDTH, WIDE = 100, 132  # of a pipe, which has none of its own; of a table with commands
GAP, WORD = 2, 40  # between columns; of a word that stands whole where there is room
RAN = "What ran (operands row-major; NN = sgemm(N,N) names the column-major call a BLAS makes of it):"
CEILINGS = "Ceilings in the same rounds:"
WRONG = "Not as it should be:"


def write(run: Run, stream: IO[str], *, verbose: bool = False) -> None:
    from rich.console import Console

    console, wide = (
        Console(file=stream, highlight=False, width=None if stream.isatty() else width) for width in (WIDTH, WIDE)
    )
    for note in run.notes:
        for sentence in note.data.get("sentences", ()) if note.topic != attribution.TOPIC else ():
            console.print(sentence, style="bold", markup=False)
    attributions = attribution.of(run)
    for document in attributions:
        console.print(attribution.text(document), markup=False, soft_wrap=True)
    ratios = table.comparisons(run)
    if ratios.rows:
        _table(console, ratios)
        if finding := findings.sentence(run):
            console.print(finding, markup=False, soft_wrap=True)
    if verbose or not (ratios.rows or attributions):
        _table(wide, table.results(run))
    for line in (*_sections(run), *_last(run, attributed=bool(attributions))):
        console.print(line, markup=False, soft_wrap=True)


def _sections(run: Run) -> Iterator[str]:
    """Under their titles: what ran, the ceilings, what went wrong."""
    for title, lines in ((RAN, table.kernels(run)), (CEILINGS, table.ceilings(run)), (WRONG, table.troubles(run))):
        if lines:
            yield title
            yield from (f"  {line}" for line in (["; ".join(lines)] if title == CEILINGS else lines))


def _last(run: Run, *, attributed: bool) -> Iterator[str]:
    """What holds for all of it: clocks, variables obeyed, the self-test; the machine, the scope, the time it took."""
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

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title=content.title, title_justify="left")
    for i, (name, width) in enumerate(zip(content.head, _widths(content, console.width), strict=True)):
        shown.add_column(name, justify="left" if i < 2 else "right", overflow="fold", width=width)
    for row in content.rows:
        shown.add_row(*(Text(cell) for cell in row))
    console.print(shown)
    for note in content.notes:
        console.print(note, markup=False, soft_wrap=True)


def _widths(content: table.Table, room: int) -> list[int]:
    """Of each column: the widest give way first, to the length of their longest word as long as others can."""
    columns = [(name, *cells) for name, *cells in zip(content.head, *content.rows, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    fixed = {i for i, column in enumerate(columns) if column[0] in table.WHOLE}
    words = [min(WORD, max(len(word) for cell in column for word in cell.split(" "))) for column in columns]
    for least in (words, [1] * len(words)):
        while sum(widths) + GAP * len(widths) > room:
            wide = [i for i, width in enumerate(widths) if width > least[i] and i not in fixed]
            if not wide:
                break
            widths[max(wide, key=widths.__getitem__)] -= 1
    return widths
