"""Campaigns about users' scripts: what is added to them, and what is judged of explanations made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from reports import attribution
from reports.breakdown import Witness
from reports.explanation import Bar, Cell, Explanation
from tests.soak import kept, scripts
from tests.soak.conftest import Answer

COPY = scripts.Injection("mlp", "fc1", "extra copy", 60, ("copy",))


def test_twelve_are_drawn_each_kind_twice() -> None:
    drawn = scripts.injections()
    assert [x.what for x in drawn] == [*scripts.ADDED, *scripts.ADDED] and drawn == scripts.injections()
    for injection in drawn:
        source = injection.source()
        compile(source, injection.script, "exec")
        assert f".get_submodule({injection.path!r}), {injection.many})" in source
        assert injection.path in scripts.MODULES[injection.script]


def cell(row: str, column: str, gap: float) -> Cell:
    amount: dict[str, Any] = {"a": None, "b": None}
    return Cell(row, column, 0.05 + gap, 0.05, gap, gap, None, None, amount, amount, (row,))


def explained(*cells: Cell, gap: float = 0.01) -> Explanation:
    both: dict[str, Any] = {"a": 0.1, "b": 0.1 - gap}
    bars = [Bar(x.column, x.a, x.b, x.low, x.high, True) for x in cells]
    words: Any = ("mlp.py", 0, "step", 1, "wall", 1, 1.0, "a", "b")
    none: dict[str, Any] = {"a": {}, "b": {}}
    rest = both, gap, (gap, gap), 0.0, cells, both, none, none, (), {}, both, both
    return Explanation(*words, *rest, bars={"cause": tuple(bars)})


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ((cell("net.fc1 forward", "copy", 0.008), cell("net.fc1 forward", "malloc", 0.0015)), "right"),
        ((cell("net.fc1 forward", "gemm", 0.009), cell("net.fc1 forward", "copy", 0.001)), "WRONG kind"),
        ((cell("net.fc2 forward", "copy", 0.01),), "WRONG module, size"),
        ((cell("net.fc1 forward", "copy", 0.005),), "WRONG size"),
        ((), "MISSED"),
    ],
)
def test_kind_module_and_size_are_right(cells: Sequence[Cell], fault: str) -> None:
    right, text = scripts.judged(COPY, explained(*cells))
    assert right is (fault == "right") and fault in text


def test_equal_pairs_that_name_a_cell_are_counted(macro: Callable[[Answer], list[str]]) -> None:
    named, nothing = explained(cell("net.fc1 forward", "copy", 0.01)), explained(cell("net.fc1 forward", "copy", 1e-4))
    macro(lambda stem, again: [attribution.note(named if stem in ("equal-02", "equal-05") else nothing)])
    *_, last = scripts.equal()
    assert (last.value, last.held) == ("2 of 20", False)


@pytest.mark.parametrize(
    ("row", "verdict", "agrees"),
    [(0.01, "agree", True), (0.002, "agree", False), (0.01, "disagree", False), (None, "cannot tell", False)],
)
def test_a_row_agrees_that_is_large_enough(row: float | None, verdict: str, agrees: bool) -> None:
    breakdown: Any = SimpleNamespace(step={"a": 0.1}, witnesses=(Witness("without net.fc", row, 0.01, verdict, ""),))
    assert scripts.witness(breakdown, "net.fc")[0] is agrees


def test_a_script_runs_again_if_a_row_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []

    def without(script: str, paths: Any, number: int) -> Any:
        runs.append(f"{script} {number}")
        verdict = "disagree" if script == "mlp" else "agree"
        witnesses = [Witness(f"without {path}", 0.01, 0.02, verdict, "") for path in paths]
        return SimpleNamespace(step={"a": 0.1}, witnesses=witnesses)

    monkeypatch.setattr(scripts, "_without", without)
    *rows, last = scripts.knocked_out()
    assert runs == ["cnn 1", "lstm 1", "transformer 1", "mlp 1", "mlp 2"]
    assert len(rows) == 12 and last.value == "9 of 12" and not last.held
    text = "its rows say 10.0 ms (10.0% of a step), steps without it are −20.0 ms: disagree; again: its"
    assert text in rows[-1].value


@pytest.mark.parametrize(
    ("by", "spread", "pairs", "held"), [(1.0, 0.001, 8, True), (1.05, 0.001, 8, False), (1.0, 0.2, scripts.MOST, False)]
)
def test_pairs_go_on_until_their_mean_is_known(
    by: float, spread: float, pairs: int, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "_watched_step", lambda script, number: 0.01 * by * (1 + spread * (-1) ** number))
    monkeypatch.setattr(scripts, "_printed_step", lambda script, number: 0.01)
    figures = list(scripts.plain())
    assert [x.held for x in figures] == [held] * 4 and figures[0].value.endswith(f" of {pairs} pairs")


@pytest.mark.usefixtures("own_state")
def test_printed_steps_are_means_of_blocks_behind_the_first_seconds() -> None:
    assert scripts.blocks([1.0] * 4 + [0.04, 0.05, 0.06, 0.2, 0.01]) == pytest.approx([0.05, 0.2])
    path = kept.folder("soak-own") / "own-mlp-1.txt"
    path.write_text("".join(f"{i} 0.1 step {0.5:.6f}\n" for i in range(20)))
    assert scripts._printed_step("mlp", 1) == 0.5
