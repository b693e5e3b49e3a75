"""Figures and text of kept runs of `explain`, `whatif` and `advise`, as expected.

`GOLDEN=write` rewrites both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reports import store
from reports.__main__ import main
from reports.record import Run
from tests.conftest import Ran

HERE = Path(__file__).parent / "shown"
KEPT = Path(__file__).parents[2] / "reports/reference/macro"
FILES = {
    "explain": KEPT / "explain-fcn-s.jsonl",
    "whatif": KEPT / "whatif/fcn-s-pytorch.jsonl",
    "advise": KEPT / "whatif/fcn-r-advise.jsonl",
}


def numbers(*values: Any) -> str:
    """Return numbers to five digits, `-` for None."""
    return " ".join("-" if x is None else f"{x:.5g}" for x in values)


def figures(run: Run) -> Iterator[str]:
    """Yield a line for every prediction, comparison and cell, in the order of the run."""
    for prediction in run.predictions:
        spans = [(x and (x.seconds, x.low, x.high)) or (None,) for x in (prediction.predicted, prediction.measured)]
        yield f"{prediction.change}: {numbers(*spans[0])} | {numbers(*spans[1])} | {prediction.verdict}"
    for contest in run.contests:
        for x in contest.comparisons:
            yield f"{x.contender} / {x.baseline}: {x.verdict} {numbers(x.ratio, x.low, x.high)}"
    for note in run.notes:
        for cell in note.data.get("cells", ()):
            values = [cell.get(key) for key in ("a", "b", "low", "high")]
            yield f"{cell['row']} {cell['phase']} {cell['column']}: {numbers(*values)}"


@pytest.mark.parametrize("name", FILES)
def test_a_kept_run_is_reported_as_before(
    name: str, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    ran = in_process(capsys, main, ["show", str(FILES[name])])
    assert ran.code == 0, ran.err
    text = "\n".join(line.rstrip() for line in ran.out.splitlines())
    for kind, content in (("figures", "\n".join(figures(store.read(FILES[name])))), ("text", text)):
        path = HERE / f"{name}.{kind}.txt"
        if os.environ.get("GOLDEN") == "write":
            path.write_text(f"{content}\n", "utf-8")
        assert f"{content}\n" == path.read_text("utf-8"), "if this is as it should be: make golden, and read the diff"


def test_every_expected_file_belongs_to_a_kept_run() -> None:
    kinds = ("figures", "text")
    assert {path.name for path in HERE.iterdir()} == {f"{name}.{kind}.txt" for name in FILES for kind in kinds}
