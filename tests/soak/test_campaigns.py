"""Campaigns of scripts, generations and predictions: what is counted of runs and times made by hand."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels import state
from macro import changes
from macro.frameworks import find
from macro.networks.base import from_data
from reports import next_run
from reports.explanation import Witness
from reports.record import Contest, Expected, Prediction
from tests import build
from tests.cases.court import Case
from tests.reports.test_predictions import AFTER, BEFORE
from tests.soak import busy, generations, injected_numpy, kept, predictions, scripts
from tests.soak.conftest import Macro, Record

CONTEST = build.contest(contest="step/x")


# Scripts


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
    assert len(rows) == 12 and last.value == "9 of 12" and not last.held and "disagree; again: its" in rows[-1].value


def test_pairs_go_on_until_their_mean_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "_printed_step", lambda script, number: 0.01)
    for spread, pairs in ((0.001, scripts.FEWEST), (0.2, scripts.MOST)):
        monkeypatch.setattr(scripts, "_watched_step", lambda script, n, by=spread: 0.01 * (1 + by * (-1) ** n))
        assert all(x.held == (spread < 0.1) and x.value.endswith(f" of {pairs} pairs") for x in scripts.plain())
    assert scripts.blocks([1.0] * 4 + [0.04, 0.05, 0.06, 0.2, 0.01]) == pytest.approx([0.05, 0.2])


# Generations

FEW = generations.Command("few", "", ("a.py:one", "a.py:two", "a.py:three"), ("--batch", "8"), 1, 6)
PAIR = build.comparison("one", "two", 1.2, contest="step", low=1.19, high=1.21)


def contest(number: int) -> Contest:
    """Return what `macro run` writes for three frameworks; its ratios change from run to run."""
    ratio = 1.2 + 0.01 * (number % 3)
    pair = replace(PAIR, ratio=ratio, low=ratio - 0.001, high=ratio + 0.001, path=(next_run.GENERATIONS,))
    return build.contest(contest="step", comparisons=(pair, replace(pair, contender="three", path=("wall",))))


def test_every_run_counts_and_the_spread_is_kept(macro: Macro, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generations, "COMMANDS", (FEW,))
    stems = macro(lambda stem, again: [contest(int(stem[-2:]))])
    first, spread, *_, last = generations.figures()
    assert first.value.startswith("6 of 6 are to be measured") and len(set(stems)) == 6
    assert spread.name == "between runs, generations" and spread.value.startswith("sd 0.7")
    assert "worst few two/one" in spread.value, "the other pair took another path"
    assert last.value.startswith("no: run python -m micro.selftest")
    wall, better = {"wall": {"sd": 0.01, "degrees": 95.0}}, {"generations": {"sd": 0.5, "degrees": 80.0}}
    for before, degrees in ((wall, 5), (better, 80.0)):
        path = state.write(f"selftest/{generations._machine()}.json", json.dumps({"between": before}))
        list(generations.figures())
        after = json.loads(path.read_bytes())["between"]
        assert after.items() >= before.items() and after["generations"]["degrees"] == degrees


@pytest.mark.usefixtures("own_state")
def test_the_stubs_and_their_network_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kept.ROOT)
    assert [find(name).name for name in generations.STUBS.frameworks] == list(generations.STUBS.frameworks)
    assert len(generations.STUBS.pairs) == 5 and generations.STUBS.pairs[0] == "stubs halves/plain"
    document: dict[str, Any] = json.loads(Path(generations.STUBS.words()[1]).read_text("utf-8"))
    assert [x.name for x in from_data(document).nodes] == [x["name"] for x in document["layers"]]
    assert [knobs.get("how") for knobs in injected_numpy.ROWS.values()] == [None, *injected_numpy.HOW]


# Predictions


def pair(change: str, seconds: float, predicted: float | None, half: float = 0.01, **more: Any) -> Prediction:
    """Return a prediction for a step of a second, measured to within 0.01 s."""
    expected = None if predicted is None else Expected(predicted, predicted - half, predicted + half, 0.9)
    measured = Expected(seconds, seconds - 0.01, seconds + 0.01, 0.9)
    fields = {"id": change, "change": change, "step": 1.0, "resolution": 0.01, **more}
    return replace(AFTER, predicted=expected, measured=measured, **fields)


def asked(name: str) -> list[str]:
    """Return the changes of a command."""
    words = predictions.COMMANDS[name].split()[2:]
    return list(itertools.takewhile(lambda word: not word.startswith("--"), words))


def of(name: str, *, cut: bool = False) -> Sequence[Record]:
    """Return a prediction for each change of a command, every other one of no effect; `cut`: its turns did not end."""
    pairs = [pair(change, x, x) for change, x in zip(asked(name), itertools.cycle((0.0001, -0.1)), strict=False)]
    return pairs if cut else [*pairs, CONTEST]


@pytest.mark.parametrize(
    ("code", "cut", "pairs"),
    [
        (2, False, "31"),  # a framework is missing: the others go on
        (1, True, "31"),  # it ended in the middle, with the exit code of one of which a change had no effect
        (1, False, "33"),  # a change had no effect
    ],
)
def test_a_command_that_fails_costs_its_pairs(code: int, cut: bool, pairs: str, macro: Macro) -> None:
    name = "fcn-s-pytorch"
    stems = macro(lambda stem, again: (code, of(stem, cut=cut)) if stem == name else of(stem))
    figures = {figure.name: figure for figure in predictions.figures()}
    assert stems == list(predictions.COMMANDS) and figures["pairs"].value == pairs
    assert [x.name for x in figures.values() if not x.held] == ([name] if pairs == "31" else [])
    text = "predicted +0.0 [-1.0, +1.0] %, measured +0.0 [-1.0, +1.0] % of a step: confirmed"
    assert figures["fcn-r-pytorch, mkl-dispatch"].value == text


@pytest.mark.parametrize(
    ("changed", "figures"),
    [
        ({"predicted": Expected(-0.1, -0.2, 0.0, 0.9)}, ["… median half-width, of the change"]),
        ({"predicted": None}, ["… not predictable", "… confirmed"]),
        ({"verdict": "refuted"}, ["… confirmed"]),
    ],
)
def test_promises_can_fail(changed: dict[str, Any], figures: list[str]) -> None:
    pairs = [pair(f"change{i % 9}", x, x) for i, x in zip(range(40), itertools.cycle((0.0001, -0.1)), strict=False)]
    assert all(x.held for x in predictions.together(pairs))
    others = [replace(x, **changed) if x.measured and x.measured.seconds < -0.05 else x for x in pairs]
    assert [x.name for x in predictions.together(others) if not x.held] == figures


def test_changes_exist_and_none_has_a_sixth_of_them() -> None:
    kinds = [change.partition("=")[0] for name in predictions.COMMANDS for change in asked(name)]
    assert {changes.known(kind).name for kind in kinds} == set(kinds)
    assert len(kinds) >= 30 and max(map(kinds.count, kinds)) <= 5
    assert sum(kind in ("threads", "isa", "batch") for kind in kinds) <= 3


def test_signs_errors_verdicts_and_intervals_are_counted() -> None:
    assert list(predictions.sentences([BEFORE])) == []
    made = [
        pair("heap-keep", -0.20, -0.20, verdict="confirmed"),
        pair("threads=2", -0.40, -0.30, verdict="refuted"),
        pair("threads=3", -0.10, 0.10, verdict="refuted"),
        pair("compile", -0.10, None, verdict=None),
        pair("isa=avx2", 0.005, 0.0, verdict="below resolution"),
        pair("mkl-dispatch", 0.005, 0.05, verdict="refuted"),
        pair("batch=4", 0.027, 0.04, verdict="confirmed"),
    ]
    assert list(predictions.sentences(made)) == [
        "7 pairs of step and change measured, 6 of them predicted; two unchanged steps are alike to within 1 % of the "
        "step (median).",
        "What was measured lies inside the 90 % interval of its prediction in 2 of 6; in 3 once the measurement's own "
        "error is added.",
        "Of the 4 that change the step by 5 % or more, by 3 kinds of change, 3 were predictable: sign right in 2; "
        "1 confirmed, 2 refuted; median error 25 % of the change, half-width of their intervals 5 % of it (median).",
        "Of 2 changes whose interval holds 0 and lies within ±5 % of the step, 1 had been predicted to change it by "
        "more than the resolution.",
    ]


# A busy machine

BUSY = "This machine was busy: other programs used 2.00 cores."


@pytest.mark.parametrize(
    ("sentences", "largest", "wrong"),
    [
        ([BUSY, "A step."], "copy", 0),
        (["A step.", BUSY], "copy", 1),
        ([BUSY, "To try: less dropout: saves at most 1 ms of a step."], "copy", 1),
        ([BUSY, "Setting: x. Do: y, which saves 1 ms of a step, measured here."], "gemm", 2),
    ],
)
def test_a_report_beside_loops_is_judged(sentences: list[str], largest: str, wrong: int) -> None:
    document = {"sentences": sentences, "step": {"a": 1.0}, "kinds": [{"name": largest, "a": 0.6}]}
    assert len(busy.faults(Case("x", "#", cause={"kind": "copy", "share": 0.5}), document)) == wrong


def test_only_large_pairs_of_scripts_count(monkeypatch: pytest.MonkeyPatch) -> None:
    large = replace(AFTER, measured=Expected(-0.2, -0.21, -0.19, 0.9), verdict="refuted")
    monkeypatch.setattr(predictions, "_pairs", lambda commands, minutes, first: (yield from ()) or [large] * 12)
    count, refuted, wrong, inside = predictions.of_scripts()
    assert count.held and (refuted.value, refuted.held) == ("12", False) and wrong.held and not inside.held
