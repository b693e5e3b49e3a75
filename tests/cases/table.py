"""The results of the court, kept as JSON beside the cases, and the page docs/cases.md that shows them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.cases.court import HERE, Case

RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "cases.md"
HEAD = """# Public complaints, and what the reports say

`make cases` times each script of `tests/cases/scripts` with and without its remedy, explains it, and judges the report
by `tests/cases/cases.toml`. That command writes this page.

All shares are of a step. The true saving is measured; the report bounds it, or measured it itself; its trials that
certainly saved something are named. A report is right if it names the true cause first, with its share within a
quarter, gives the advice that it must and none that is wrong for the script, or costs time, bounds no saving below the
true one, times the right step, and has no parts that exceed it.

"""
COLUMNS = ("case", "source", "true cause", "named first", "remedy", "true saving", "in the report")
COLUMNS = (*COLUMNS, "trials in it", "minutes", "right")


def load() -> dict[str, Any]:
    """Return the rows of earlier runs, by case."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}


def save(rows: Mapping[str, Any], cases: Sequence[Case]) -> None:
    """Write the rows and the page."""
    RESULTS.write_text(json.dumps(rows, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
    PAGE.write_text(page(rows, cases), "utf-8")


def page(rows: Mapping[str, Any], cases: Sequence[Case]) -> str:
    """Return the page: a table of the cases that have been run, then their faults."""
    known = [(case, rows[case.name]) for case in cases if case.name in rows]
    right = sum(not row["faults"] for _, row in known)
    table = [COLUMNS, ["---"] * len(COLUMNS), *(_cells(case, row) for case, row in known)]
    faults = [f"- {case.name}: {'; '.join(row['faults'])}" for case, row in known if row["faults"]]
    lines = [f"| {' | '.join(cells)} |" for cells in table]
    judged = Counter(f"{row['processor']}, commit {row.get('commit')}" for _, row in known if row.get("processor"))
    where = "; ".join(f"{count} on {at}" for at, count in judged.items())
    return HEAD + "\n".join([*lines, "", f"{right} of {len(known)} right ({where}). Faults:", "", *faults]) + "\n"


def _cells(case: Case, row: Mapping[str, Any]) -> list[str]:
    cause = " ".join(f"{x:.0%}" if isinstance(x, float) else f"{view} {x}" for view, x in case.cause.items())
    cause = f"long steps {cause}" if "long" in case.cause else cause
    named = f"{row['named']} {row['share']:.0%}".removesuffix(" 0%") if row.get("named") else "–"
    remedy = case.bound or ", ".join(case.advice.get("must", ())) or ("an edit" if case.remedy else "–")
    saving = f"{row['true']['saving']:.0%}" if case.remedy else "–"
    most = "–" if row.get("bound") is None else f"{row['bound']:.0%}"
    made = ", ".join(f"{name} {share:.0%}" for name, share in row.get("trials", {}).items()) or "–"
    right = "no" if row["faults"] else "yes"
    return [case.name, case.source, cause or "–", named, remedy, saving, most, made, f"{row['minutes']:.1f}", right]
