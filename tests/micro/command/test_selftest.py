"""What `micro.selftest` judges, on numbers made by hand, and how it goes on; no speed is asserted."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from micro import selftest
from micro.command import figure, generations, known_pairs, rival_runs, spread
from micro.command import selftest as command
from micro.command.figure import Figure, rate
from micro.command.known_pairs import Pair
from micro.command.spread import PairFigures, Runs
from micro.contests import promises, rivals
from micro.contests import selftest as pairs_of
from micro.measuring.runner import Runner
from micro.planning.contest import Contest
from reports import next_run as paths
from reports import record, stats, store
from reports.next_run import Spread
from reports.record import Comparison
from reports.store import RunFile, Unwritable
from tests.conftest import Ran, load

ROOT = Path(__file__).parents[3]

# What a rate says of itself.


@pytest.mark.parametrize(
    ("hits", "trials", "least", "word"),
    [
        (750, 750, 0.985, "yes"),
        (746, 750, 0.985, "yes"),  # 4 false alarms: at most 1.36 %
        (745, 750, 0.985, "NO"),  # 5: the interval reaches 1.55 %
        (150, 150, 0.985, "not judged: 150 are too few to show it"),
        (140, 150, 0.985, "NO"),  # too few to show it, enough to refute it
        (116, 120, 0.90, "yes"),
        (114, 120, 0.90, "NO"),  # its upper end is far above: that it touches does not help
        (0, 0, 0.90, "not judged: there are none"),
    ],
)
def test_a_rate_is_held_where_its_whole_interval_lies_inside(hits: int, trials: int, least: float, word: str) -> None:
    assert rate("x", hits, trials, least).judgment == word


@pytest.mark.parametrize(
    ("hits", "word"),
    [(819, "yes"), (806, "NO"), (845, "NO")],  # of 855: 0.958, 0.943, 0.988
)
def test_a_rate_between_two(hits: int, word: str) -> None:
    one = rate("x", hits, 855, 0.93, None, 0.98)
    assert (one.judgment, one.promised) == (word, "0.93 to 0.98")


def test_what_was_said_beforehand_is_not_judged_whatever_came() -> None:
    for hits in (300, 0):
        one = rate("x", hits, 300, 0.90, "the host is busy")
        assert (one.judgment, figure.exit_code([one])) == ("not judged: the host is busy", 0)
    assert figure.exit_code([rate("x", 0, 300, 0.90)]) == 1


def test_the_table_has_the_column(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    made = [rate("a", 300, 300, 0.9), rate("b", 30, 300, 0.9), rate("c", 3, 3, 0.9), Figure("d", "1 ns", "", True)]
    figure.table(made, sys.stdout)
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip(" ─")]
    assert head == ["figure", "found", "promised", "held"]
    assert [row[-1] for row in rows[:2]] == ["yes", "NO"] and "not judged: 3 are too few" in " ".join(rows[2])


# Pairs of known truth.


def pair(kind: str = "identical", verdict: str = "same", **changes: Any) -> Pair:
    return replace(Pair(kind, "64³", verdict, 0.1, True, False), **changes)


def named(found: Sequence[Figure], start: str) -> Figure:
    (one,) = [x for x in found if x.name.startswith(start)]
    return one


def test_contended_pairs_are_no_quiet_ones() -> None:
    """Nor do they excuse anything: those that are left are judged."""
    found = [pair()] * 300 + [pair(verdict="slower", contended=True)] * 100
    made = [*known_pairs.figures(found, False, True, None)]
    assert named(made, "pairs that were quiet").found == "300 of 400"
    assert named(made, promises.NOT_DIFFERENT).found.startswith("300 of 300")
    broken = [*known_pairs.figures([*found, *[pair(verdict="slower")] * 20], False, True, None)]
    assert named(broken, promises.NOT_DIFFERENT).judgment == "NO"


def test_without_quiet_pairs_nothing_is_judged() -> None:
    made = [*known_pairs.figures([pair(contended=True)] * 50, False, True, None)]
    assert named(made, promises.NOT_DIFFERENT).judgment == "not judged: there are none"
    assert figure.exit_code(made) == 0


def pilot(own: float, warning: str = "") -> record.Contest:
    """A second, of which the worker ran so much."""
    case = record.Result("a", "c", "measured", "gemm", {}, "openblas", "cpu", 1, "planned")
    case = replace(case, warnings=(warning,) if warning else ())
    return record.Contest("c", "?", "x", (case,), (), system={"clock": 1.0, "own": own})


def test_the_pilot_decides_before_there_is_a_verdict() -> None:
    """By lost time, or by a canary."""
    assert known_pairs.noisy([pilot(0.85), pilot(0.99)]) is None
    why = known_pairs.noisy([pilot(0.81), pilot(0.95)])
    assert why == "12% of the pilot's time went to others"
    assert known_pairs.noisy([pilot(1.0), pilot(1.0, "contended: slow host: it took 9% more")]) is not None
    made = [*known_pairs.figures([pair(verdict="slower")] * 300, False, True, why)]
    assert {one.judgment for one in made if one.promised} == {f"not judged: {why}"}


def test_the_worst_kernel_stands_first() -> None:
    found = [pair()] * 150 + [pair(kernel="copy", holds=number % 4 > 0) for number in range(150)]
    made = [one for one in known_pairs.figures(found, False, True, None) if one.name.startswith("intervals that hold")]
    assert [one.name for one in made] == ["intervals that hold 1, copy, the worst", "intervals that hold 1, 64³"]
    assert [one.judgment for one in made] == ["NO", ""]


def test_beside_spinners_contended_pairs_count() -> None:
    found = [pair(contended=True)] * 300 + [pair("+2 %", "same", contended=True), pair("+5 %", "slower")]
    made = [*known_pairs.figures(found, True, True, None)]
    assert named(made, promises.NOT_DIFFERENT).judgment == "yes"
    assert named(made, "+2 % missed but marked contended").held


# Runs of rivals.


def runs(ratios: Sequence[float], error: float = 0.001, name: str = "a", **changes: Any) -> Runs:
    z = 1.959964
    made = (stats.Interval(x, x * math.exp(-z * error), x * math.exp(z * error), 0.0) for x in ratios)
    return replace(Runs("wall", name, False, tuple(made)), **changes)


def scattered(sd: float, own: float, count: int = 20, seed: int = 1, **changes: Any) -> Runs:
    """Runs that lie `sd` apart beyond their own error."""
    rng = np.random.default_rng(seed)
    return runs(np.exp(0.3 + rng.normal(0, math.hypot(sd, own), count)).tolist(), own, f"pair {seed}", **changes)


def test_an_interval_is_held_against_the_mean_of_the_other_runs() -> None:
    """Against the mean with itself in it the run that is far off would come nearer."""
    one = runs([1.0, 1.0, 1.0, 1.0, 1.006], error=0.00255)
    assert one.holding == 4
    assert one.intervals[-1].low < math.exp(np.mean(one.logs)), "with itself it would have held it"


@pytest.mark.parametrize(("between", "own"), [(0.02, 0.001), (0.003, 0.003), (0.0, 0.01)])
def test_the_spread_is_what_lies_beyond_the_intervals(between: float, own: float) -> None:
    found = spread.between([scattered(between, own, 400, seed) for seed in range(5)])
    assert found["wall"].sd == pytest.approx(between, abs=0.15 * math.hypot(between, own))
    assert found["wall"].degrees == 5 * 399


def test_twins_and_single_runs_tell_nothing_of_rivals() -> None:
    twins, single = scattered(0.1, 0.001, twin=True), scattered(0.1, 0.001, 1)
    assert spread.between([twins, single]) == {}
    assert spread.between([scattered(0.01, 0.001), twins, single])["wall"].degrees == 19


def test_two_runs_of_one_pair_are_too_few() -> None:
    """One degree of freedom: 12.7 times its spread."""
    assert spread.between([scattered(0.01, 0.001, 2)]) == {}
    assert spread.between([scattered(0.01, 0.001, 2, 1), scattered(0.01, 0.001, 2, 2)])["wall"].degrees == 2


@pytest.mark.parametrize(("between", "own"), [(0.02, 0.001), (0.003, 0.003), (0.001, 0.01)])
def test_of_alike_pairs_the_next_run_lies_inside(between: float, own: float) -> None:
    """Simulated: 200 pairs of 20 runs."""
    made = [scattered(between, own, 20, seed) for seed in range(200)]
    known = spread.between(made)
    found = spread.figures(made, known)
    share = sum(one.inside for one in found) / sum(one.runs - 1 for one in found)
    assert 0.93 < share < 0.98
    assert not spread.certainly_below(found)
    assert np.median([one.width for one in found]) < spread.WIDEST


def test_one_pair_that_is_another_each_time_is_named() -> None:
    """Its spread is twenty times that of 30 others, which share a path with it."""
    made = [scattered(0.001, 0.0005, 20, seed) for seed in range(30)] + [scattered(0.02, 0.0005, 20, 99)]
    known = {"wall": Spread(0.001, 500.0)}
    (below,) = spread.certainly_below(spread.figures(made, known))
    assert below.pair == "pair 99"


def test_chance_in_forty_pairs_is_none() -> None:
    """15 of 19 would be certain of one pair alone, p = 0.04; not of the worst of forty."""
    fine = PairFigures("wall", "fine", False, 20, 0, 20, 18, 0.01, 4.0)
    odd = replace(fine, pair="odd", inside=15)
    assert spread.certainly_below([odd]) == [odd]
    assert spread.certainly_below([odd, *[fine] * 39]) == []


def test_rows_for_tables() -> None:
    made = [scattered(0.01, 0.001, 20, 1), scattered(0.01, 0.001, 20, 2), scattered(0.01, 0.001, 20, 3, twin=True)]
    known = spread.between(made)
    (row,) = spread.rows(spread.figures(made, known), known)
    assert (row["path"], row["runs"], row["steps"], row["degrees"]) == ("wall", 40, 38, 38)
    assert len(row["pairs"]) == 3 and json.loads(json.dumps(row)) == row


def test_what_is_promised_of_rivals() -> None:
    made = [scattered(0.01, 0.004, 20, seed) for seed in range(40)]
    known = spread.between(made)
    told = [*rival_runs.figures(made, spread.figures(made, known), known, None)]
    assert [one.judgment for one in told] == ["", "yes", "yes", "yes"]
    quiet = [*rival_runs.figures(made, spread.figures(made, known), known, "noisy")]
    assert {one.judgment for one in quiet[1:]} == {"not judged: noisy"}


def test_three_runs_show_nothing() -> None:
    made = [scattered(0.01, 0.004, 3, seed) for seed in range(10)]
    known = spread.between(made)
    told = [*rival_runs.figures(made, spread.figures(made, known), known, None)]
    assert all(one.judgment.startswith("not judged: fewer than 5 runs") for one in told[1:])


def test_pairs_of_few_runs_are_left_out_of_what_is_judged() -> None:
    made = [scattered(0.01, 0.004, 20, seed) for seed in range(40)] + [scattered(0.5, 0.004, 2, 99)]
    known = {"wall": spread.between(made[:40])["wall"]}
    told = [*rival_runs.figures(made, spread.figures(made, known), known, None)]
    assert [one.judgment for one in told[1:]] == ["yes", "yes", "yes"]


# Which pairs there are.


def test_every_path_has_five_rivals() -> None:
    every = rivals.rivals(2, True)
    by_path = {name: [one for one in every if one.path == name and not one.twin] for name in rivals.SECONDS}
    assert {len(found) for found in by_path.values()} == {5}
    assert {one.path for one in every if one.twin} == set(rivals.SECONDS) - {paths.PYTHON}
    names = [one.contest(0).name for one in every]
    assert len(set(names)) == len(names)
    assert len(generations.STUBS.pairs) == 5 and len(generations.REAL) == 2


def test_one_core_has_no_pairs_of_two_threads() -> None:
    assert paths.THREADS not in {one.path for one in rivals.rivals(1, True)}


def test_the_quick_one_is_a_part() -> None:
    quick, every = rivals.rivals(2, False), rivals.rivals(2, True)
    assert set(quick) < set(every) and not any(one.twin for one in quick)
    assert {name: sum(one.path == name for one in quick) for name in rivals.QUICK} == rivals.QUICK


@pytest.mark.parametrize(
    ("path", "took", "counts"),
    [
        (paths.WALL, ("wall",), True),
        (paths.WALL, ("wall", "one look"), False),
        (paths.CPU, ("wall",), False),
        (paths.CPU, ("cpu", "one look"), False),
        (paths.ONE_LOOK, ("cpu", "one look"), True),
        (paths.LOCKSTEP, ("wall", "lockstep"), True),
        (paths.LOCKSTEP, ("wall",), False),
    ],
)
def test_a_run_that_took_another_path_does_not_count(path: str, took: tuple[str, ...], counts: bool) -> None:
    one = next(x for x in rivals.rivals(2, True) if x.path == path)
    assert one.took(took) == counts
    told = Comparison("c", "kernel", "a", "b", 1.5, 1.4, 1.6, 0.95, "slower", None, 0.01, 0.01, path=took)
    known: Any = {one.contest(0).name: SimpleNamespace(comparisons=(told,))}
    (found,) = rival_runs.RivalRuns([one], [], 0).runs(1, known)
    assert (len(found.intervals), found.strayed) == ((1, 0) if counts else (0, 1))


def test_the_stubs_are_those_of_the_file() -> None:
    from macro.frameworks import find

    assert [find(name).name for name in generations.STUBS.frameworks] == list(generations.STUBS.frameworks)


def test_the_network_of_the_stubs_is_one() -> None:
    from macro.networks.base import from_data

    told = generations.stub_network()
    assert list(from_data(told).data()["layers"]) == told["layers"]


# The whole command, on contests that take no time.


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
        told = Comparison(
            contest.name, "x", first, second, ratio, 0.999 * ratio, 1.001 * ratio, 0.95, verdict, None, 0.01, 0.01
        )
        told = replace(told, path=(took,))
        return record.Contest(contest.name, "?", "x", (), (told,), {"measuring": 0.1})

    monkeypatch.setattr(Runner, "run", run)
    monkeypatch.setattr(rivals, "QUICK", rivals.QUICK | {paths.FIXED: 1})
    monkeypatch.setattr(command.Selftest, "_biases", lambda self, noisy: iter(()))
    yield names


def selftested(
    capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran], *words: str
) -> tuple[Ran, dict[str, Any]]:
    ran = in_process(capsys, selftest.main, [*words, "--json", "-", "-q"])
    return ran, json.loads(ran.out) if ran.out else {}


def test_the_quick_one(
    made: list[str], capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran], own_state: Path
) -> None:
    ran, told = selftested(capsys, in_process)
    assert ran.code == 0, ran.err
    assert len(set(made)) == len(made)
    assert sum(name.startswith("selftest/identical") and "pilot" not in name for name in made) == 150 + 4
    rival = [name for name in made if "/rival/" in name]
    assert len(rival) == 3 * sum(rivals.QUICK.values())
    assert set(told["between"]) == set(rivals.QUICK)
    assert told["between"]["wall"]["sd"] == pytest.approx(0.00057, rel=0.2)
    assert not [one for one in told["figures"] if "simulated" in one["name"]]
    assert [one["found"] for one in told["figures"] if one["name"] == "variables that steer libraries"]
    (kept,) = (own_state / "selftest").glob("*.json")
    assert json.loads(kept.read_text())["between"] == told["between"]


def test_rivals_and_known_pairs_take_turns_over_the_whole_time(
    made: list[str], capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    selftested(capsys, in_process)
    kinds = ["rival" if "/rival/" in name else "known" for name in made if "pilot" not in name]
    changes = sum(a != b for a, b in itertools.pairwise(kinds))
    assert changes >= 5, "three times rivals, three times pairs of known truth"
    orders = [
        [name.rpartition("/")[0] for name in made if "/rival/" in name and name.endswith(f"/{i}")] for i in (0, 1)
    ]
    assert sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1]


@pytest.mark.parametrize("error", [KeyboardInterrupt, Unwritable("-o: No space left on device")])
def test_a_stopped_one_goes_on(
    error: Any,
    made: list[str],
    capsys: pytest.CaptureFixture[str],
    in_process: Callable[..., Ran],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, append = tmp_path / "run.jsonl", RunFile.append

    def stop(self: RunFile, one: Any) -> None:
        if len(self.run.contests) == 100:
            raise error
        append(self, one)

    with monkeypatch.context() as patch:
        patch.setattr(RunFile, "append", stop)
        ran, _ = selftested(capsys, in_process, "-o", str(path))
    assert ran.code == (130 if error is KeyboardInterrupt else 1)
    assert "--resume" in ran.err or error is not KeyboardInterrupt
    finished = [contest.contest for contest in store.read(path).contests]
    assert len(finished) == 100
    made.clear()
    ran, told = selftested(capsys, in_process, "-o", str(path), "--resume")
    assert ran.code == 0 and not set(made) & set(finished)
    run = store.read(path)
    names = [contest.contest for contest in run.contests]
    assert len(set(names)) == len(names) == len(made) + 100
    assert [note.data["between"] for note in run.notes] == [told["between"]]


def test_what_was_too_noisy_is_said_before(
    made: list[str], capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def busy(pilot: Sequence[record.Contest]) -> str:
        asked.extend((len(pilot), len(made)))
        return "it is busy"

    monkeypatch.setattr(known_pairs, "noisy", busy)
    ran, told = selftested(capsys, in_process)
    assert asked == [12, 12], "before anything else was measured"
    assert ran.err.splitlines()[0] == "micro.selftest: it is busy: figures of a quiet machine will not be judged"
    assert ran.code == 0 and all(one["busy"] for one in told["figures"] if one["promised"])


def test_a_quick_one_keeps_what_a_full_one_knows() -> None:
    quick = {"wall": {"sd": 0.02, "degrees": 4.0}, "cpu": {"sd": 0.02, "degrees": 2.0}}
    full = {"wall": {"sd": 0.01, "degrees": 95.0}, "generations": {"sd": 0.03, "degrees": 80.0}}
    both = command.better(quick, full)
    assert both == {"wall": full["wall"], "cpu": quick["cpu"], "generations": full["generations"]}
    assert command.better(full, quick) == both
    newer = {"wall": {"sd": 0.07, "degrees": 95.0}}
    assert command.better(newer, full)["wall"] == newer["wall"], "of two that know as much the later one"


def test_later_reports_carry_the_spreads(
    made: list[str], capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran], own_state: Path
) -> None:
    selftested(capsys, in_process)
    (path,) = (own_state / "selftest").glob("*.json")
    known = json.loads(path.read_text())
    assert known["between"]["wall"]["degrees"] == 4 and "paths" not in known
    known["between"] = {"wall": {"sd": 0.5, "degrees": 95.0}}
    path.write_text(json.dumps(known))
    selftested(capsys, in_process)
    assert json.loads(path.read_text())["between"]["wall"] == {"sd": 0.5, "degrees": 95.0}


@pytest.mark.parametrize(
    ("words", "says"), [(("--resume",), "--resume: it needs a run file"), (("--full", "--explain"), "not allowed with")]
)
def test_usage(
    words: Sequence[str], says: str, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    ran = in_process(capsys, selftest.main, words)
    assert ran.code == 2 and says in ran.err


def test_explain_takes_ten_lines(capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]) -> None:
    ran = in_process(capsys, selftest.main, ["--explain"])
    lines = ran.out.splitlines()
    assert ran.code == 0 and len(lines) == 10 and max(map(len, lines)) <= 120
    assert "1.5 %" in ran.out and "can patch the harness" in ran.out


def test_contest_names_are_as_before() -> None:
    """Run files of before name them so."""
    first = next(pairs_of.schedule(pairs_of.QUICK, False)).contest.name
    assert first == "selftest/identical/0/gemm/m:64/n:64/k:64"


def test_the_page_has_a_row_for_each_path_its_worst_pair_in_it() -> None:
    made = [scattered(0.01, 0.001, 20, seed) for seed in range(5)]
    known = spread.between(made)
    rows = spread.rows(spread.figures(made, known), known)
    head, _, row = [*load(ROOT / "docs/generate.py")._paths(rows)][1:]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    worst = rows[0]["pairs"][0]
    assert cells[:2] == ["wall", "100 of 5 pairs"] and cells[3] == f"{worst['pair']}: {worst['holding']} of 20"
    assert head.count("|") == row.count("|")
