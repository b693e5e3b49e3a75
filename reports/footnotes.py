"""Footnotes of remarks on single comparisons; remarks that differ only in numbers share a footnote."""

from __future__ import annotations

import re

from reports import flat, slow, stats
from reports.record import Result, Run

COUNTED = (slow.BLIND, stats.NEEDED)  # remarks that differ only in numbers contain one of these


def kind(remark: str, sides: tuple[Result, Result]) -> str:
    """Return a remark with `#` for its numbers of rounds, as the key of its footnote.

    A remark on a side without a time names only the variant, since the row shows the rest."""
    if without_time := re.match(r"(\S+)(?= (?:skipped|wrong|failed): )", remark):
        variants = {result.name: result.variant for result in sides}
        name = without_time[0]
        return variants.get(name, flat.plain(name)) + remark[len(name) :]
    return _numberless(remark) if any(words in remark for words in COUNTED) else remark


def of_all(run: Run, kind: str) -> str:
    """Return the footnote of a kind of remark with the range of its numbers: `6 to 11 rounds …`."""
    if not any(words in kind for words in map(_numberless, COUNTED)):
        return kind
    remarks = [text for x in run.comparisons for text in (x.reason or "", *x.notes) if _numberless(text) == kind]
    columns = zip(*([int(number) for number in re.findall(r"\d+", text)] for text in remarks), strict=True)
    ranges = (f"{min(x)}" if min(x) == max(x) else f"{min(x)} to {max(x)}" for x in columns)
    remark = re.sub("#", lambda _: next(ranges), kind)
    return f"{remark}: use a longer --budget or several runs" if slow.BLIND in kind else remark


def _numberless(text: str) -> str:
    return re.sub(r"\d+", "#", text)
