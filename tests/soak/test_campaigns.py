"""Campaigns of scripts, generations, predictions and rates: what is counted of runs and times made by hand."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels import catalog, state
from kernels.libs import openblas
from macro import changes
from macro.frameworks import find
from macro.networks.base import from_data
from reports import next_run
from reports.explanation import Witness
from reports.record import Comparison, Contest, Expected, Prediction
from tests import build
from tests.reports.test_predictions import AFTER, BEFORE
from tests.soak import elementwise, generations, injected_numpy, kept, predictions, rate, scripts
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
    (kept.folder("soak-own") / "own-mlp-1.txt").write_text("".join(f"{i} 0.1 step {0.5:.6f}\n" for i in range(20)))
    assert scripts._printed_step("mlp", 1) == 0.5


# Generations

FEW = generations.Command("few", "", ("a.py:one", "a.py:two", "a.py:three"), ("--batch", "8"), 1, 6)
PAIR = build.comparison("one", "two", 1.2, contest="step", low=1.19, high=1.21)


def contest(number: int) -> Contest:
    """Return what `macro run` writes for three frameworks; its ratios change from run to run."""
    ratio = 1.2 + 0.01 * (number % 3)
    pair = replace(PAIR, ratio=ratio, low=ratio - 0.001, high=ratio + 0.001, path=(next_run.GENERATIONS,))
    return build.contest(contest="step", comparisons=(pair, replace(pair, contender="three", path=("wall",))))


def test_every_run_counts_and_the_spread_is_kept(macro: Macro, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generations, "CAMPAIGNS", {"spread": (FEW,)})
    stems = macro(lambda stem, again: [contest(int(stem[-2:]))])
    first, spread, *_, last = generations.figures("spread")
    assert first.value.startswith("6 of 6 are to be measured") and len(set(stems)) == 6
    assert spread.name == "between runs, generations" and spread.value.startswith("sd 0.7")
    assert "worst few two/one" in spread.value, "the other pair took another path"
    assert last.value.startswith("no: run python -m micro.selftest")
    wall, better = {"wall": {"sd": 0.01, "degrees": 95.0}}, {"generations": {"sd": 0.5, "degrees": 80.0}}
    for before, degrees in ((wall, 5), (better, 80.0)):
        path = state.write(f"selftest/{generations._machine()}.json", json.dumps({"between": before}))
        list(generations.figures("spread"))
        after = json.loads(path.read_bytes())["between"]
        assert after.items() >= before.items() and after["generations"]["degrees"] == degrees


@pytest.mark.parametrize(
    ("ratios", "held", "text"),
    [
        ([(1.005, 0.01)] * 18 + [(1.02, 0.01)] * 2, True, "18 of 20 intervals hold 1, median half-width 1.00%"),
        ([(1.005, 0.01)] * 17 + [(1.02, 0.01)] * 3, False, "17 of 20"),
        ([(1.0, 0.04)] * 20, False, "median half-width 4.00%"),
        ([(1.0, 0.01)] * 9 + [(None, 0.0)], True, "9 of 10"),
    ],
)
def test_a_framework_against_itself(ratios: list[tuple[float | None, float]], held: bool, text: str) -> None:
    seen = [replace(PAIR, ratio=x, low=x and x - half, high=x and x + half) for x, half in ratios]
    figure = generations.against_itself("it against itself", seen)
    assert figure.held is held and text in figure.value


@pytest.mark.usefixtures("own_state")
def test_the_stubs_and_their_network_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kept.ROOT)
    assert [find(name).name for name in generations.STUBS.frameworks] == list(generations.STUBS.frameworks)
    assert len(generations.STUBS.pairs) == 5 and generations.STUBS.pairs[0] == "stubs halves/plain"
    document: dict[str, Any] = json.loads(Path(generations.STUBS.words()[1]).read_text("utf-8"))
    assert [x.name for x in from_data(document).nodes] == [x["name"] for x in document["layers"]]
    assert [knobs.get("how") for knobs in injected_numpy.ROWS.values()] == [None, *injected_numpy.HOW]


@pytest.mark.parametrize("how", injected_numpy.HOW)
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
def test_a_stub_makes_the_product(how: str, transposed: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(6, 5)).astype("f4"), rng.normal(size=(5, 4)).astype("f4")
    left, right = (np.ascontiguousarray(x.T).T if other else x for x, other in zip((a, b), transposed, strict=True))
    out = np.full((6, 4), np.nan, np.float32)
    injected_numpy.HOW[how](left, right, out)
    assert np.allclose(out, a @ b, atol=1e-5)


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
        (0, False, "35,"),
        (2, False, "32,"),  # a framework is missing: the others go on
        (1, True, "32,"),  # it ended in the middle, with the exit code of one of which a change had no effect
        (1, False, "35,"),  # a change had no effect
    ],
)
def test_a_command_that_fails_costs_its_pairs(code: int, cut: bool, pairs: str, macro: Macro) -> None:
    name = "fcn-s-pytorch"
    stems = macro(lambda stem, again: (code, of(stem, cut=cut)) if stem == name else of(stem))
    figures = {figure.name: figure for figure in predictions.figures()}
    assert stems == list(predictions.COMMANDS) and figures["pairs"].value.startswith(pairs)
    assert [x.name for x in figures.values() if not x.held] == ([name] if pairs == "32," else [])
    text = "predicted +0.0 [-1.0, +1.0] %, measured +0.0 [-1.0, +1.0] % of a step: confirmed"
    assert figures["fcn-r-pytorch, mkl-dispatch"].value == text


@pytest.mark.parametrize(
    ("changed", "figure"),
    [
        ({"predicted": Expected(0.2, 0.19, 0.21, 0.9)}, "… sign"),
        ({"predicted": Expected(-0.2, -0.21, -0.19, 0.9)}, "… off by"),
        ({"predicted": Expected(-0.1, -0.2, 0.0, 0.9)}, "… half-width"),
        ({"predicted": None}, "… not predictable"),
        ({"verdict": "refuted"}, "… confirmed"),
        ({"resolution": 0.021}, "resolution"),
        ({"change": "heap-keep"}, "pairs of one change"),
        ({"change": "batch=3"}, "pairs of 5% or more, of batch, threads, isa"),
        ({"predicted": Expected(0.2, 0.19, 0.21, 0.9), "measured": Expected(0.0, -0.01, 0.01, 0.9)}, "90 % intervals"),
        (
            {"predicted": Expected(0.2, 0.19, 0.21, 0.9), "measured": Expected(0.0, -0.01, 0.01, 0.9)},
            "… that were predicted to be one",
        ),
    ],
)
def test_each_promise_can_fail(changed: dict[str, Any], figure: str) -> None:
    pairs = [pair(f"change{i % 9}", x, x) for i, x in zip(range(40), itertools.cycle((0.0001, -0.1)), strict=False)]
    assert all(x.held for x in predictions.together(pairs))
    others = [replace(x, **changed) if x.measured and x.measured.seconds < -0.05 else x for x in pairs]
    if figure == "resolution":
        others = [replace(x, **changed) for x in pairs]
    assert figure in [x.name for x in predictions.together(others) if not x.held]


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


needs_openblas = pytest.mark.skipif(openblas.missing("numpy") is not None, reason="NumPy without OpenBLAS")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rate.build(tmp_path_factory.mktemp("loop"), ("-Wall", "-Wextra", "-Werror"))


@needs_openblas
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # the worker's cell
def test_a_pair_takes_every_round_in_both_processes(program: Path) -> None:
    logs = rate.pair(program, 8, 6, np.random.default_rng(0))
    assert logs.shape == (6,) and np.isfinite(logs).all()


@needs_openblas
@pytest.mark.parametrize(("place", "text"), [(0, "no/such/library.so"), (1, "no_such_symbol"), (3, "no_such_threads")])
def test_the_loop_refuses_in_one_line(program: Path, place: int, text: str) -> None:
    arguments = [*rate.entry(), "8", "8", "8", "1e-4"]
    arguments[place] = text
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith("gemm_loop: ") and text in done.stderr


def test_a_rate_below_the_promise_is_not_held() -> None:
    wobble = np.random.default_rng(1).normal(0, 0.002, (5, 40))
    figure = rate.judged(64, list(wobble))
    assert figure.held and figure.name.startswith("rate of 64x64x64") and figure.value.startswith("1.000 [")
    figure = rate.judged(256, list(wobble + np.log(0.95)))
    assert not figure.held and figure.value.startswith("0.950 [")
    figure = rate.judged(64, [np.zeros(2)])
    assert (figure.value, figure.held) == ("too few rounds for an interval", False)


def rivals(*ratios: float | None, width: float = 0.01) -> list[tuple[str, Comparison]]:
    """Rivals by number, each so many times as slow as ours."""
    ends = [{"low": x - width, "high": x + width} if x else {"reason": "skipped"} for x in ratios]
    return [(f"rival{i}", build.comparison(ratio=x, **ends[i])) for i, x in enumerate(ratios)]


def test_the_best_rival_counts() -> None:
    promise = next(elementwise.streams())
    assert elementwise.judged(promise, rivals(1.3, 0.97, None, 1.1)).say() == (
        "copy of 64 KiB: 0.970 [0.960, 0.980] of the rate of the best of 3, rival1; promised 0.95: held"
    )
    assert not elementwise.judged(promise, rivals(1.3, 0.93, None, 1.1)).held
    assert elementwise.judged(promise, rivals(0.945)).held, "it is missed where the whole interval lies below"
    figure = elementwise.judged(promise, rivals(None))
    assert (figure.value, figure.held) == ("nothing could be measured: skipped", False)


def test_every_case_can_be_measured() -> None:
    for promise in (*elementwise.streams(), *elementwise.transposes(), *elementwise.softmax()):
        for case in (promise.ours, *promise.rivals):
            assert catalog.find(case.problem.op, case.variant).accepts(case.problem) is None
