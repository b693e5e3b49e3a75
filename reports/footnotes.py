"""Remarks on single comparisons as footnotes: one for all that differ in nothing but numbers."""

from __future__ import annotations

import re

from reports import flat, slow, stats
from reports.record import Result, Run

COUNTED = (slow.BLIND, stats.NEEDED)  # what remarks say that differ in nothing but numbers


def kind(remark: str, sides: tuple[Result, Result]) -> str:
    """A remark without its numbers of rounds, for one footnote says it of all; a side without a time is named by its
    variant, as the row tells the rest."""
    if without_time := re.match(r"(\S+)(?= (?:skipped|wrong|failed): )", remark):
        variants = {result.name: result.variant for result in sides}
        name = without_time[0]
        return variants.get(name, flat.plain(name)) + remark[len(name) :]
    return _numberless(remark) if any(words in remark for words in COUNTED) else remark


def of_all(run: Run, kind: str) -> str:
    """The footnote of a kind of remark, with the numbers that it has in all comparisons: `6 to 11 rounds …`."""
    if not any(words in kind for words in map(_numberless, COUNTED)):
        return kind
    remarks = [text for x in run.comparisons for text in (x.reason or "", *x.notes) if _numberless(text) == kind]
    columns = zip(*([int(number) for number in re.findall(r"\d+", text)] for text in remarks), strict=True)
    ranges = (f"{min(x)}" if min(x) == max(x) else f"{min(x)} to {max(x)}" for x in columns)
    remark = re.sub("#", lambda _: next(ranges), kind)
    return f"{remark}: a longer --budget does, and several runs do" if slow.BLIND in kind else remark


def _numberless(text: str) -> str:
    return re.sub(r"\d+", "#", text)
