"""The comparisons as a Markdown table, the sentences above it; of an attribution what a person reads."""

from __future__ import annotations

from typing import IO

from reports import busy, explained, findings, table, unfinished
from reports.record import Run

ENDINGS = (".md", ".markdown")


def write(run: Run, stream: IO[str]) -> None:
    if disturbed := busy.sentence(run):
        stream.write(f"{disturbed}\n\n")
    for sentence in findings.said(run):
        stream.write(f"{sentence}\n\n")
    write_attribution(run, stream)
    comparisons = table.comparisons(run)
    if comparisons.rows:
        stream.write(f"{comparisons.title}\n\n| {' | '.join(comparisons.head)} |\n|{'---|' * len(comparisons.head)}\n")
    for row in comparisons.rows:
        stream.write(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n")
    for remark in (*comparisons.notes, *table.kernels(run), *table.troubles(run), *unfinished.sentences(run)):
        stream.write(f"\n{remark}\n")


def write_attribution(run: Run, stream: IO[str]) -> None:
    """What a person reads, its columns kept."""
    for text in explained.texts(run):
        stream.write(f"```text\n{text}\n```\n")
