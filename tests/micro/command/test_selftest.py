"""The whole of `micro.selftest`, on contests that take no time; no speed is asserted."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from micro import selftest
from micro.command import known_pairs
from micro.command import selftest as command
from micro.contests import rivals
from micro.contests import selftest as pairs_of
from micro.measuring.runner import Runner
from micro.planning.contest import Contest
from reports import next_run as paths
from reports import record, store
from reports.store import RunFile, Unwritable
from tests import build
from tests.conftest import Ran


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, own_state: Path) -> Iterator[list[str]]:
    """Contests measured, by name; each answers 'same', rivals a ratio that changes from run to run."""
    names: list[str] = []

    def run(self: Runner, contest: Contest, seconds: float, budget: Any) -> record.Contest:
        names.append(contest.name)
        kind, number = contest.name.split("/")[1], contest.name.rpartition("/")[2]
        verdict = "slower" if kind.startswith("+") else "same"
        ratio = 1.3 + 0.001 * (int(number) % 3) if kind == "rival" else 1.0
        took = contest.name.split("/")[2].replace("-", " ")
        first, second = (case.name for case in contest.cases)
        ends = {"contest": contest.name, "low": 0.999 * ratio, "high": 1.001 * ratio, "verdict": verdict}
        told = build.comparison(first, second, ratio, **ends, path=(took,))
        return build.contest(contest=contest.name, comparisons=(told,), seconds={"measuring": 0.1})

    monkeypatch.setattr(Runner, "run", run)
    monkeypatch.setattr(rivals, "QUICK", rivals.QUICK | {paths.FIXED: 1})
    monkeypatch.setattr(command.Selftest, "_biases", lambda self, noisy: iter(()))
    yield names


Selftested = Callable[..., tuple[Ran, dict[str, Any]]]


@pytest.fixture
def selftested(capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]) -> Selftested:
    """`selftested("--full")`: what the command leaves, and its document."""

    def run(*words: str) -> tuple[Ran, dict[str, Any]]:
        ran = in_process(capsys, selftest.main, [*words, "--json", "-", "-q"])
        return ran, json.loads(ran.out) if ran.out else {}

    return run


def test_the_quick_one(made: list[str], selftested: Selftested, own_state: Path) -> None:
    ran, told = selftested()
    assert ran.code == 0, ran.err
    assert len(set(made)) == len(made)
    assert sum(name.startswith("selftest/identical") and "pilot" not in name for name in made) == 45 + 4
    rival = [name for name in made if "/rival/" in name]
    assert len(rival) == 3 * sum(rivals.QUICK.values())
    assert set(told["between"]) == set(rivals.QUICK)
    assert told["between"]["wall"]["sd"] == pytest.approx(0.00057, rel=0.2)
    assert not [one for one in told["figures"] if "simulated" in one["name"]]
    assert [one["found"] for one in told["figures"] if one["name"] == "variables that steer libraries"]
    (kept,) = (own_state / "selftest").glob("*.json")
    assert json.loads(kept.read_text())["between"] == told["between"]


def test_rivals_and_known_pairs_take_turns_over_the_whole_time(made: list[str], selftested: Selftested) -> None:
    selftested()
    kinds = ["rival" if "/rival/" in name else "known" for name in made if "pilot" not in name]
    changes = sum(a != b for a, b in itertools.pairwise(kinds))
    assert changes >= 5, "three times rivals, three times pairs of known truth"
    orders = [
        [name.rpartition("/")[0] for name in made if "/rival/" in name and name.endswith(f"/{i}")] for i in (0, 1)
    ]
    assert sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1]


@pytest.mark.parametrize("error", [KeyboardInterrupt, Unwritable("-o: No space left on device")])
def test_a_stopped_one_goes_on(
    error: Any, made: list[str], selftested: Selftested, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, append = tmp_path / "run.jsonl", RunFile.append

    def stop(self: RunFile, one: Any) -> None:
        if len(self.run.contests) == 100:
            raise error
        append(self, one)

    with monkeypatch.context() as patch:
        patch.setattr(RunFile, "append", stop)
        ran, _ = selftested("-o", str(path))
    assert ran.code == (130 if error is KeyboardInterrupt else 1)
    assert "--resume" in ran.err or error is not KeyboardInterrupt
    finished = [contest.contest for contest in store.read(path).contests]
    assert len(finished) == 100
    made.clear()
    ran, told = selftested("-o", str(path), "--resume")
    assert ran.code == 0 and not set(made) & set(finished)
    run = store.read(path)
    names = [contest.contest for contest in run.contests]
    assert len(set(names)) == len(names) == len(made) + 100
    assert [note.data["between"] for note in run.notes] == [told["between"]]


def test_what_was_too_noisy_is_said_before(
    made: list[str], selftested: Selftested, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def busy(pilot: Sequence[record.Contest]) -> str:
        asked.extend((len(pilot), len(made)))
        return "it is busy"

    monkeypatch.setattr(known_pairs, "noisy", busy)
    ran, told = selftested()
    assert asked == [24, 24], "before anything else was measured"
    assert ran.err.splitlines()[0] == "micro.selftest: it is busy: figures that need a quiet machine will not be judged"
    assert ran.code == 0 and all(one["busy"] for one in told["figures"] if one["promised"])


def test_a_quick_one_keeps_what_a_full_one_knows() -> None:
    quick = {"wall": {"sd": 0.02, "degrees": 4.0}, "cpu": {"sd": 0.02, "degrees": 2.0}}
    full = {"wall": {"sd": 0.01, "degrees": 95.0}, "generations": {"sd": 0.03, "degrees": 80.0}}
    both = command.better(quick, full)
    assert both == {"wall": full["wall"], "cpu": quick["cpu"], "generations": full["generations"]}
    assert command.better(full, quick) == both
    newer = {"wall": {"sd": 0.07, "degrees": 95.0}}
    assert command.better(newer, full)["wall"] == newer["wall"], "of two that know as much the later one"


def test_later_reports_carry_the_spreads(made: list[str], selftested: Selftested, own_state: Path) -> None:
    selftested()
    (path,) = (own_state / "selftest").glob("*.json")
    known = json.loads(path.read_text())
    assert known["between"]["wall"]["degrees"] == 2 and "paths" not in known
    known["between"] = {"wall": {"sd": 0.5, "degrees": 95.0}}
    path.write_text(json.dumps(known))
    selftested()
    assert json.loads(path.read_text())["between"]["wall"] == {"sd": 0.5, "degrees": 95.0}
    path.write_text(json.dumps(known | {"between": {"wall": 0.5}}))
    assert selftested()[0].code == 0, "of another make it is none"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--resume",), "--resume: requires a run file"),
        (("--full", "--explain"), "not allowed with"),
        (("--json", "nowhere/figures.json"), "--json nowhere/figures.json: No such file"),
        (("--soak", "causes"), "--soak was removed: type python -m tests.soak, in a checkout"),
    ],
)
def test_usage(
    made: list[str], words: Sequence[str], says: str, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    """Said before anything is measured."""
    ran = in_process(capsys, selftest.main, words)
    assert ran.code == 2 and says in ran.err and not made


def test_explain_takes_ten_lines(capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]) -> None:
    ran = in_process(capsys, selftest.main, ["--explain"])
    lines = ran.out.splitlines()
    assert ran.code == 0 and len(lines) == 10 and max(map(len, lines)) <= 120
    assert "1.5 %" in ran.out and "can patch the harness" in ran.out


def test_contest_names_are_as_before() -> None:
    """Run files of before name them so."""
    first = next(pairs_of.schedule(pairs_of.QUICK, False)).contest.name
    assert first == "selftest/identical/0/gemm/m:64/n:64/k:64"
