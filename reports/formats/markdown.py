"""Comparisons and steps as Markdown tables below their sentences, and attributions as text."""

from __future__ import annotations

from typing import IO

from reports import busy, findings, steps, table
from reports.record import Run

ENDINGS = (".md", ".markdown")


def write(run: Run, stream: IO[str]) -> None:
    _write_gates(run, stream)
    if disturbed := busy.sentence(run):
        stream.write(f"{disturbed}\n\n")
    for sentence in findings.notes(run):
        stream.write(f"{sentence}\n\n")
    _write_texts(run, stream)
    for content in (table.comparisons(run), steps.steps(run)):
        if content and content.rows:
            _write_table(content, stream)
    for remark in (*table.kernels(run), *table.troubles(run), *findings.unfinished(run)):
        stream.write(f"\n{remark}\n")


def _write_table(content: table.Table, stream: IO[str]) -> None:
    """Write a table with its notes."""
    stream.write(f"{content.title}\n\n| {' | '.join(content.head)} |\n|{'---|' * len(content.head)}\n")
    for row in content.rows:
        stream.write(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n")
    stream.write("".join(f"\n{note}\n" for note in content.notes) + "\n")


def write_attribution(run: Run, stream: IO[str]) -> None:
    """Write the texts of attributions, below the sentence of a gate.

    Of two programs, the comparison only: a summary for a comment."""
    _write_gates(run, stream)
    _write_texts(run, stream)


def _write_gates(run: Run, stream: IO[str]) -> None:
    for sentence in findings.gates(run):
        stream.write(f"**{sentence}**\n\n")


def _write_texts(run: Run, stream: IO[str]) -> None:
    """Write the texts of attributions, with their columns kept."""
    for text in findings.texts(run):
        if text != findings.SINGLE:
            stream.write(f"```text\n{text}\n```\n")
