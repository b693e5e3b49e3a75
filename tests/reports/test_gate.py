"""The gate's decision on ratios made by hand, its exit code and its sentence, and its place in every report."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from reports import attribution, formats, gate
from reports.gate import Gate
from reports.record import Contest, Run
from tests import build
from tests.explanations import explanation

REMEDY = "run longer"


def figures(verdict: str, high: float, doubt: str = "") -> gate.Tested:
    return gate.Tested("new takes 1.0 times old", verdict, 1.0, 0.9, high, doubt)


@pytest.mark.parametrize(
    ("ratios", "missing", "outcome", "text"),
    [
        ([figures("same", 1.01)], [], "passed", "new takes 1.0 times old."),
        ([figures("slower", 1.04)], [], "passed", "new takes 1.0 times old."),  # certainly by less
        ([figures("slower", 1.05)], [], "failed", "new takes 1.0 times old."),
        ([figures("unresolved", 1.2)], [], "passed", "a slowdown of 5% is not excluded: run longer."),
        ([figures("slower", 1.2, "it is busy")], [], "no verdict", "new takes 1.0 times old, but it is busy."),
        ([figures("same", 1.01, "it is busy")], [], "passed", "new takes 1.0 times old."),
        ([figures("unresolved", 1.2, "it is busy")], [], "no verdict", "but it is busy."),
        ([figures("same", 1.01)], ["x: skipped"], "no verdict", "x: skipped (1 of 2 comparisons)."),
        ([figures("slower", 1.2)], ["x: skipped"], "failed", "new takes 1.0 times old."),
        ([], [], "no verdict", "nothing was compared."),
        ([figures("same", 1.01), figures("slower", 1.2)], [], "failed", "(1 of 2 comparisons)."),
    ],
)
def test_only_a_certain_slowdown_of_the_share_fails(
    ratios: list[gate.Tested], missing: list[str], outcome: str, text: str
) -> None:
    decided = gate.gate(0.05, ratios, missing, REMEDY)
    assert decided.outcome == outcome and decided.sentence.startswith(f"Gate 5%: {outcome}: ")
    assert decided.sentence.endswith(text), decided.sentence
    assert decided.code == {"passed": 0, "failed": 1, "no verdict": 2}[outcome]
    assert decided.high == (ratios[0].high if len(ratios) == 1 else None)


def contest(m: int, verdict: str = "slower", p: float = 0.001, **changes: Any) -> Contest:
    """Return a contest of `new` against `old`, slower by a tenth unless the verdict says else."""
    name = f"c{m}"
    old, new = (build.case(m, variant=variant, contest=name, **changes) for variant in ("old", "new"))
    ratio, interval = 1.1, "rounds, mean without 3/16 at each end"
    ends = {"ratio": ratio, "low": 1.08, "high": 1.12, "verdict": verdict, "p": p, "interval": interval}
    compared = build.comparison(old.name, new.name, contest=name, **ends)
    return build.contest(old, new, contest=name, comparisons=(compared,))


def decided(*contests: Contest) -> Gate:
    return gate.of_variants(build.run(*contests), 0.05, "old", "new")


def test_any_slower_contest_fails() -> None:
    assert decided(contest(8)).outcome == "failed"
    failed = decided(contest(8), contest(16, "same"))
    assert failed.outcome == "failed" and "gemm m:8" in failed.sentence and "m:16" not in failed.sentence


def test_several_contests_share_their_error() -> None:
    """A verdict with p 0.01 stands alone, and not as the best of ten."""
    assert decided(contest(8, p=0.01)).outcome == "failed"
    others = [contest(m, "same", p=1.0) for m in range(16, 160, 16)]
    assert decided(contest(8, p=0.01), *others).outcome == "passed"
    assert decided(contest(8, p=0.001), *others).outcome == "failed"


def test_a_slowdown_beside_other_processes_has_no_verdict() -> None:
    busy = decided(contest(8, lost=0.5))
    assert busy.outcome == "no verdict" and "other processes took time in 50% of the rounds" in busy.sentence
    assert decided(contest(8, lost=0.1)).outcome == "failed"


def test_a_contest_without_a_ratio_has_no_verdict() -> None:
    few = contest(8)
    few = replace(few, comparisons=(replace(few.comparisons[0], ratio=None, low=None, high=None, reason=None),))
    assert "c8: too few rounds for an interval" in decided(few).sentence and decided(few).code == 2
    old, new = few.results
    wrong = replace(new, status="wrong", seconds=None, reason="returns zeros")
    assert "c8: new wrong: returns zeros" in decided(replace(few, results=(old, wrong))).sentence


def with_gate(run: Run) -> Run:
    return replace(run, notes=(*run.notes, gate.note(gate.of_variants(run, 0.05, "old", "new"))))


@pytest.mark.parametrize("kind", ["text", "markdown"])
def test_the_gate_is_the_first_line_of_a_report(kind: str) -> None:
    outcome = Gate(0.05, "passed", "Gate 5%: passed: it is.")
    for run, sentence in (
        (with_gate(build.run(contest(8))), "Gate 5%: failed: new takes"),
        (build.run(notes=(attribution.note(explanation(gate=outcome)),)), "Gate 5%: passed: it is."),
    ):
        stream = io.StringIO()
        formats.write(kind, run, stream)
        assert stream.getvalue().lstrip("*").startswith(sentence)
        assert stream.getvalue().count("Gate 5%") == 1
    assert gate.code(with_gate(build.run(contest(8)))) == 1 and gate.code(build.run(contest(8))) == 0
