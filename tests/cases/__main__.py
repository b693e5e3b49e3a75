"""Run the cases with clocks and write which reports are right: `make cases`, or `python -m tests.cases NAME…`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kernels.devices import open_device
from tests.cases import judgment, table, truth
from tests.cases.court import HERE, Case, cases, explained


def judged(case: Case) -> dict[str, Any]:
    """Time a case's script, explain it, judge the report; return the row of the results."""
    began = time.monotonic()
    true = truth.measured(case.script, case.remedy, case.clock)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "document.json")
        report = explained(case, path)
        document = json.loads(path.read_text("utf-8")) if path.exists() else {}
    row = {"true": true, "minutes": (time.monotonic() - began) / 60, **_where()}
    if not document:
        return {**row, "faults": [f"no document: {report.stderr.strip()[-200:]}"]}
    return {**row, **judgment.row(case, true, report.stdout, document)}


def _where() -> dict[str, Any]:
    """Return the commit of the working tree, with a plus sign if its code differs, and the processor's model."""
    words = [("rev-parse", "--short", "HEAD"), ("status", "--porcelain", "--", "kernels", "micro", "macro", "reports")]
    commit, changed = (
        subprocess.run(["git", *x], cwd=HERE.parents[1], capture_output=True, text=True, check=False).stdout
        for x in words
    )
    return {"commit": commit.strip() + "+" * bool(changed.strip()), "processor": open_device("cpu").describe()["model"]}


def main(names: list[str]) -> int:
    """Judge the named cases, or all; keep their rows beside the others', and write the page."""
    rows = table.load()
    if unknown := sorted(set(names) - {case.name for case in cases()}):
        print(f"{', '.join(unknown)}: no such case", file=sys.stderr)
        return 2
    wanted = [case for case in cases() if case.name in names or not names]
    for case in wanted:
        try:
            rows[case.name] = judged(case)
        except (subprocess.SubprocessError, OSError) as error:
            rows[case.name] = {"true": {"saving": 0.0}, "minutes": 0.0, "faults": [f"not judged: {error!r}"[:200]]}
        print(f"{case.name}: {'; '.join(rows[case.name]['faults']) or 'right'}", flush=True)
        table.save(rows, cases())
    wrong = [case for case in wanted if rows[case.name]["faults"]]
    print(f"{len(wanted) - len(wrong)} of {len(wanted)} right")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
