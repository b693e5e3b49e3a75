"""When a row that was left out counts, and what is told of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from micro.command import soak_knock
from reports.breakdown import Witness


def found(said: float | None, seen: float, verdict: str) -> Any:
    return SimpleNamespace(step={"a": 0.1}, witnesses=(Witness("without net.fc", said, seen, verdict, ""),))


@pytest.mark.parametrize(
    ("said", "verdict", "agrees"),
    [(0.01, "agree", True), (0.002, "agree", False), (0.01, "disagree", False), (None, "cannot tell", False)],
)
def test_a_row_agrees_that_is_large_enough(said: float | None, verdict: str, agrees: bool) -> None:
    assert soak_knock._agrees(found(said, 0.01, verdict), "net.fc") is agrees


def test_a_script_is_run_again_where_a_row_does_not_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []

    def run(script: str, paths: Any, number: int) -> Any:
        runs.append(f"{script} {number}")
        verdict = "disagree" if script == "mlp" else "agree"
        return SimpleNamespace(
            step={"a": 0.1}, witnesses=[Witness(f"without {path}", 0.01, 0.02, verdict, "") for path in paths]
        )

    monkeypatch.setattr(soak_knock, "_run", run)
    *rows, last = soak_knock.figures()
    assert runs == ["cnn 1", "lstm 1", "transformer 1", "mlp 1", "mlp 2"]
    assert len(rows) == 12 and last.found == "9 of 12" and not last.held
    assert (
        "its rows say 10.0 ms (10.0% of a step), steps without it are −20.0 ms: disagree; again: its" in rows[-1].found
    )
