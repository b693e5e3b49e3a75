"""What a person reads on a terminal: the answer, the ratios, what ran, what went wrong."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from reports import attribution, table
from reports.record import Run

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 132  # of a pipe, which has none of its own


def write(run: Run, stream: IO[str], *, verbose: bool = False) -> None:
    from rich.console import Console

    console = Console(file=stream, highlight=False, width=None if stream.isatty() else WIDTH)
    for note in run.notes:
        for sentence in note.data.get("sentences", ()) if note.topic != attribution.TOPIC else ():
            console.print(sentence, style="bold", markup=False)
    told = attribution.of(run)
    for document in told:
        console.print(attribution.text(document), markup=False, soft_wrap=True)
    made = table.comparisons(run)
    if made.rows:
        _table(console, made)
    if verbose or not (made.rows or told):
        _table(console, table.results(run))
    for title, lines in (
        (
            "What ran (operands row-major; NN = sgemm(N,N) names the column-major call a BLAS makes of it):",
            table.kernels(run),
        ),
        ("Ceilings in the same rounds:", (", ".join(table.ceilings(run)),)),
        ("Not as it should be:", table.troubles(run)),
    ):
        if any(lines):
            console.print(title, markup=False)
            for line in lines:
                console.print(f"  {line}", markup=False, soft_wrap=True)
    for line in filter(None, (table.burst(run), table.steered(run), *(() if told else table.selftest(run)))):
        console.print(line, markup=False, soft_wrap=True)
    facts = run.environment.facts
    device = facts.get("device", {})
    said = [f"{device.get('model')}, {facts.get('cores')} cores"]
    if not told:
        scopes = list(dict.fromkeys(c.scope for c in run.comparisons)) or ["within this process"]
        said += [f"intervals hold {', '.join(scopes)}", table.seconds(run)]
    console.print(f"{'; '.join(said)}.", markup=False, soft_wrap=True)


def _table(console: Console, made: table.Table) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=made.title, title_justify="left")
    for i, name in enumerate(made.head):
        shown.add_column(name, justify="left" if i < 2 else "right", overflow="fold")
    for row in made.rows:
        shown.add_row(*(Text(cell) for cell in row))
    console.print(shown)
    for note in made.notes:
        console.print(note, markup=False, soft_wrap=True)
