"""The results of the court, kept as JSON beside the cases, and the page docs/cases.md that shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.cases.court import HERE, Case

RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "cases.md"
HEAD = """# Public complaints, and what the reports say

`make cases` runs each script of `tests/cases/scripts` by itself, with and without its remedy, then explains it, and
judges the report by `tests/cases/cases.toml`. This page is written by that command, on the machine at its end.

A share is one of a step. *True saving* is measured, *saving in the report* is what it bounds or measured itself.
A report is right if its largest cause is the true one, with its share within a quarter, if it gives the advice that it
must and none that is wrong for the script, and if no bound is below the true saving. Its faults are listed below.

"""
COLUMNS = ("case", "source", "true cause", "named first", "remedy", "true saving", "in the report", "minutes", "right")


def load() -> dict[str, Any]:
    """Return the rows of earlier runs, by case."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}


def save(rows: Mapping[str, Any], cases: Sequence[Case]) -> None:
    """Write the rows and the page."""
    RESULTS.write_text(json.dumps(rows, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
    PAGE.write_text(page(rows, cases), "utf-8")


def page(rows: Mapping[str, Any], cases: Sequence[Case]) -> str:
    """Return the page: a table of the cases that have been run, then their faults."""
    known = [case for case in cases if case.name in rows]
    right = sum(not rows[case.name]["faults"] for case in known)
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += ["| " + " | ".join(_cells(case, rows[case.name])) + " |" for case in known]
    faults = [f"- {case.name}: {'; '.join(rows[case.name]['faults'])}" for case in known if rows[case.name]["faults"]]
    return HEAD + "\n".join([*lines, "", f"{right} of {len(known)} right.", "", *faults]) + "\n"


def _cells(case: Case, row: Mapping[str, Any]) -> list[str]:
    cause = next(((view, x) for view, x in case.cause.items() if view != "share"), ("", "–"))
    share = case.cause.get("long", case.cause.get("share"))
    text = "rare long steps" if cause[0] == "long" else f"{cause[0]} {cause[1]}".strip()
    named = f"{row['named']} {_percent(row['share'])}".strip() if row.get("named") else "–"
    saving = _percent(row["true"]["saving"]) if case.remedy else "–"
    bounded = _percent(row["bound"]) if row.get("bound") is not None else "–"
    right = "no" if row["faults"] else "yes"
    remedy = case.bound or ", ".join(case.advice.get("must", ())) or ("an edit" if case.remedy else "–")
    return [case.name, case.source, f"{text} {_percent(share)}".strip(), named, remedy, saving, bounded,
            f"{row['minutes']:.1f}", right]  # fmt: skip


def _percent(share: float | None) -> str:
    return f"{share:.0%}" if share else ""
