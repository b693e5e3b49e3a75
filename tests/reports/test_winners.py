"""The last sentence of a report: the fastest case of each contest."""

from __future__ import annotations

from typing import Any

import pytest

from reports import attribution, findings, table, winners
from reports.figures import waterfall
from reports.record import Contest
from tests import build
from tests.explanations import BREAKDOWN, cell, explanation, noted


def contest(m: int = 8, differs: str = "variant", question: str = "?", **seconds: float) -> Contest:
    """Return a contest between variants by their microseconds, the first the baseline, ratios within 5 %."""
    name = f"c{m}"
    cases = [
        build.case(m, variant=variant, contest=name, seconds=build.spread(1e-6 * time))
        for variant, time in seconds.items()
    ]
    ratios = [build.over(cases[0], case, half=0.05, contest=name) for case in cases[1:]]
    return build.contest(*cases, contest=name, differs=differs, question=question, comparisons=tuple(ratios))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        ({"a": 10.0, "b": 5.0, "c": 8.0}, "Fastest: b 5.00 µs, 0.50 [0.47, 0.53] of a, chosen from 2."),
        ({"a": 10.0, "b": 20.0, "c": 30.0}, "Fastest: a 10.0 µs."),
        ({"a": 10.0, "b": 5.0, "c": 5.1}, "chosen from 2 (perhaps as fast: c)."),
        ({"a": 10.0, "b": 9.9}, "Fastest: b 9.90 µs, 0.99 [0.94, 1.04] of a (perhaps as fast: a)."),
        ({"a": 10.0, "b": 10.1}, "Fastest: a 10.0 µs (perhaps as fast: b)."),
    ],
)
def test_the_winner_is_named_with_its_rivals(seconds: dict[str, float], text: str) -> None:
    sentence = winners.sentence(build.run(contest(**seconds)))
    assert sentence is not None and sentence.endswith(text), sentence


def test_winners_of_several_contests_stand_beside_what_differs() -> None:
    few = build.run(contest(8, a=10.0, b=5.0), contest(16, a=5.0, b=10.0))
    assert winners.sentence(few) == "Fastest: m:8: b 5.00 µs, 0.50 [0.47, 0.53] of a; m:16: a 5.00 µs."
    many = build.run(*(contest(8 * i, a=10.0, b=5.0 if i % 3 else 20.0) for i in range(1, 10)))
    assert winners.sentence(many) == "Fastest in 9 contests: b in 6, a in 3."
    assert (findings.sentence(few) or "").startswith("Of 2 comparisons 1 slower, 1 faster. Fastest: ")


@pytest.mark.parametrize(("question", "names"), [("which layout is fastest?", True), ("how much slower is b?", False)])
def test_other_contests_have_a_winner_if_they_ask_which(question: str, names: bool) -> None:
    run = build.run(contest(differs="layout", question=question, a=10.0, b=5.0, c=20.0))
    assert bool(winners.sentence(run)) is names
    assert ("the largest difference" in (findings.sentence(run) or "")) is not names


def test_a_single_ratio_needs_no_winner() -> None:
    assert (findings.sentence(build.run(contest(a=10.0, b=5.0))) or "").startswith("Here b takes 0.50 ")


def test_rows_are_sorted_by_time() -> None:
    shown = contest(a=10.0, b=30.0, c=5.0, d=20.0)
    pairs = [row[0] for row in table.comparisons(build.run(shown)).rows]
    assert pairs == ["c / a", "d / a", "b / a"]
    by_size = [row[0] for row in table.comparisons(build.run(contest(differs="m", a=10.0, b=30.0, c=5.0))).rows]
    assert by_size == ["b / a", "c / a"]


def test_long_names_of_scripts_leave_tables_within_100_columns() -> None:
    cells = [cell("net.layer1.0.residual.block.convolution forward " * 2, "gemm", 0.1, 0.24)]
    names: dict[str, Any] = {"a": "experiments/full/train.py", "b": "experiments/parts/train.py"}
    text = attribution.text(explanation(cells, **names))
    assert "A: experiments/full/train.py; B: experiments/parts/train.py" in text
    rows = [line for line in text.splitlines() if line.startswith(("cause ", "row ", "net.layer1", "─"))]
    assert len(rows) == 5 and max(map(len, rows)) <= 100 and "…" in rows[-1]
    assert "A: " not in attribution.text(explanation())


def test_a_picture_of_two_scripts_has_a_short_name() -> None:
    explained = explanation(network="train.py", a="full/train.py", b="parts/train.py")
    assert waterfall.slug(explained) == "full-train-parts-train"
    assert waterfall.slug(explanation()) == "net-numpy-pytorch"


def test_two_programs_are_compared_only_unless_all_is_asked_for() -> None:
    run = build.run(notes=(attribution.note(explanation()), *noted(*[BREAKDOWN] * 2).notes))
    short, full = findings.texts(run), findings.texts(run, full=True)
    assert len(short) == 2 and short[1] == findings.SINGLE and len(full) == 3 and full[0] == short[0]
    assert len(findings.texts(noted(BREAKDOWN))) == 1  # a single program's is never left out
