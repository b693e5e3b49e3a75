"""Runs that are repeated in fresh processes, interrupted and resumed; on the fake device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from micro.command.outputs import Progress
from micro.measuring import replicates, rounds
from micro.worker.process import Workers
from reports import stats, store
from reports.record import Contest, Note, Result
from reports.store import RunFile
from tests import build
from tests.conftest import Ran

CASES = ("--m", "8,16", "--n", "8", "--k", "8", "--variant", "openblas,naive")
WORDS = (*CASES, "--device", "fake", "--budget", "20s", "-q")  # more than it takes on a busy machine
Interrupt = Callable[[BaseException, int, int], None]


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    """`interrupt(KeyboardInterrupt(), 2, 7)`: raise in the second contest, after its seventh round."""
    monkeypatch.setattr(rounds, "BREATH", 0.0)  # one round at a time

    def arm(error: BaseException, contest: int, count: int) -> None:
        def say(self: Progress, text: str) -> None:
            if self._number == contest and text.startswith(f"{count} round"):
                raise error

        monkeypatch.setattr(Progress, "say", say)

    return arm


def shapes(contests: Sequence[Contest]) -> list[tuple[str, str | None, bool]]:
    return [(contest.contest.split("/")[1], contest.stopped, contest.interrupted) for contest in contests]


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)], ids=["INT", "TERM"])
def test_rounds_in_flight_are_kept_and_shown(
    gemm: Callable[..., Ran], tmp_path: Path, interrupt: Interrupt, error: BaseException, code: int
) -> None:
    path = tmp_path / "run.jsonl"
    interrupt(error, 2, 7)
    ran = gemm(*WORDS, "-o", str(path))
    assert ran.code == code
    assert "interrupted; 1 of 2 contests finished, 1 more measured in part: saved in" in ran.err
    assert "Unfinished: gemm/m:16/n:8/k:8, interrupted after 7 rounds" in ran.out
    first, second = store.read(path).contests
    assert shapes([first, second]) == [
        ("m:8", "the answer is known", False),
        ("m:16", "interrupted after 7 rounds", True),
    ]
    assert [len(result.samples) for result in second.results if result.role == "measured"] == [7, 7]
    assert second.comparisons[0].low is not None and second.comparisons[0].verdict == "slower"


def test_fewer_than_six_rounds_have_no_interval(gemm: Callable[..., Ran], interrupt: Interrupt) -> None:
    interrupt(KeyboardInterrupt(), 1, 4)
    ran = gemm(*WORDS)
    assert ran.code == 130 and "not saved (no -o FILE)" in ran.err
    assert "4 of the 6 rounds that an interval needs; interrupted after 4 rounds" in " ".join(ran.out.split())
    assert "Unfinished: gemm/m:8/n:8/k:8, interrupted after 4 rounds" in ran.out


def test_resume_measures_it_anew(gemm: Callable[..., Ran], tmp_path: Path, interrupt: Interrupt) -> None:
    """Interrupted twice, then not: one record of each contest is left."""
    path = tmp_path / "run.jsonl"
    for contest, count in ((2, 7), (1, 3)):  # resumed, the second is the first
        interrupt(KeyboardInterrupt(), contest, count)
        gemm(*WORDS, "-o", str(path), "--resume")
    first, second = store.read(path).contests
    assert (first.interrupted, second.stopped) == (False, "interrupted after 3 rounds")
    interrupt(KeyboardInterrupt(), 0, 0)
    ran = gemm(*WORDS, "-o", str(path), "--resume")
    assert ran.code == 0 and "Unfinished" not in ran.out
    assert store.read(path).contests[0] == first
    assert shapes(store.read(path).contests) == [(m, "the answer is known", False) for m in ("m:8", "m:16")]


def test_runs_of_replicates_are_kept(gemm: Callable[..., Ran], tmp_path: Path, interrupt: Interrupt) -> None:
    """In the second of three passes: one contest has two runs, the other one and the rounds in flight."""
    path = tmp_path / "run.jsonl"
    interrupt(KeyboardInterrupt(), 4, 3)
    ran = gemm(*WORDS, "--replicate", "3", "-o", str(path))
    assert ran.code == 130 and "0 of 2 contests finished, 2 more measured in part, 3 of 6 runs" in ran.err
    kept = store.read(path).contests
    assert {contest.stopped for contest in kept} == {f"interrupted after {count} of 3 runs" for count in (1, 2)}
    interrupt(KeyboardInterrupt(), 0, 0)
    assert gemm(*WORDS, "--replicate", "3", "-o", str(path), "--resume").code == 0
    assert [len(contest.comparisons[0].replicates) for contest in store.read(path).contests] == [3, 3]


def test_an_interrupted_worker_is_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is still to come, and would be taken for that of the next request."""
    from micro.measuring import workers

    def interrupted(*request: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(workers, "ask", interrupted)
    alive: Any = Workers()
    alive._alive[("cpu",)] = SimpleNamespace(close=lambda: None)
    with pytest.raises(KeyboardInterrupt):
        workers.ContestWorkers(alive, (), 0)._ask(("cpu",), workers.Close(), 1.0)
    assert alive.alive(("cpu",)) is None


FAST, SLOW = "gemm/m:8/n:8/k:8/variant:a/threads:1", "gemm/m:8/n:8/k:8/variant:b/threads:1"


def result(name: str, samples: Sequence[float]) -> Result:
    middle = float(np.median(samples))
    rounds = {"samples": tuple(samples), "rounds": tuple(range(len(samples))), "canary": {"fma": [2e-5]}, "faults": 1}
    rate = {"seconds": build.spread(middle), "flops_per_second": 1000 / middle}
    return build.result(name, variant=name[-11], clock="wall", **rate, **rounds)


def one(about: float, rounds: int = 16, **changes: Any) -> Contest:
    """A run in which the second case takes `about` times what the first takes, give or take 0.1 %."""
    wobble = np.exp(np.random.default_rng(round(about * 1e6)).normal(0, 0.001, rounds))
    results = result(FAST, [1e-6] * rounds), result(SLOW, (1e-6 * about * wobble).tolist())
    fields = {"ratio": about, "low": 0.99 * about, "high": 1.01 * about, "path": ("wall",)} | changes
    spent = {"measuring": 1.0, "setup": 0.5}
    told = build.comparison(FAST, SLOW, **fields)
    return build.contest(*results, comparisons=(told,), seconds=spent, stopped="done")


RATIOS = (1.10, 1.14, 1.08, 1.12, 1.11)


def test_the_spread_between_runs_is_in_the_interval() -> None:
    """0.1 % within a run, 2 % between them."""
    found = replicates.combined([one(ratio) for ratio in RATIOS])
    (told,) = found.comparisons
    logs = np.log(RATIOS)
    assert told.ratio == pytest.approx(math.exp(logs.mean()), abs=1e-3)
    half = 2.776 * logs.std(ddof=1) / math.sqrt(5)
    assert told.low is not None and math.log(told.ratio / told.low) == pytest.approx(half, rel=0.1)
    assert (told.verdict, told.scope, told.path) == ("slower", "across 5 processes", ("wall",))
    assert [x.ratio for x in told.replicates] == list(RATIOS)
    assert told.next_low is not None and told.next_low < min(RATIOS) < told.low < told.ratio
    assert found.seconds == {"measuring": 5.0, "setup": 2.5}


def test_samples_of_all_runs_are_kept_with_their_process() -> None:
    runs = [one(1.1, 16), one(1.2, 8)]
    runs[1] = replace(runs[1], results=tuple(replace(x, rejected=(3,)) for x in runs[1].results))
    fast, slow = replicates.combined(runs).results
    assert slow.processes == (0,) * 16 + (1,) * 8
    assert slow.samples == runs[0].results[1].samples + runs[1].results[1].samples
    assert (slow.rounds, slow.rejected) == (tuple(range(24)), (19,))
    assert (fast.faults, fast.canary) == (2, {"fma": [2e-5, 2e-5]})
    assert slow.seconds is not None and slow.seconds.median == pytest.approx(1.15e-6, rel=0.01)
    assert slow.flops_per_second == pytest.approx(1000 / slow.seconds.median)
    assert (slow.seconds.low, slow.seconds.high) == (None, None), "of two runs nothing is known of their median"


def test_rejected_rounds_do_not_count() -> None:
    runs = [one(1.1), one(1.1)]
    spoilt = (5.0,) * 8 + runs[0].results[1].samples[8:]
    runs[0] = replace(runs[0], results=(runs[0].results[0], replace(runs[0].results[1], samples=spoilt)))
    runs[0] = replace(runs[0], results=tuple(replace(x, rejected=tuple(range(8))) for x in runs[0].results))
    assert replicates.combined(runs).comparisons[0].ratio == pytest.approx(1.1, rel=0.01)


@pytest.mark.parametrize(("status", "reason"), [("wrong", "off by 3"), ("failed", "crashes"), ("skipped", "not here")])
def test_a_case_without_a_time_in_one_run_has_none(status: Any, reason: str) -> None:
    without = replace(one(1.1).results[1], status=status, reason=reason, seconds=None, samples=(), rounds=())
    broken = one(1.1, ratio=None, low=None, high=None, verdict="not comparable", reason=f"{SLOW} {status}: {reason}")
    broken = replace(broken, results=(broken.results[0], without))
    found = replicates.combined([one(1.1), broken, one(1.1)])
    assert (found.results[1].status, found.results[1].reason, found.results[1].seconds) == (status, reason, None)
    (told,) = found.comparisons
    assert (told.ratio, told.verdict, told.reason) == (None, "not comparable", f"{SLOW} {status}: {reason}")
    assert [x.ratio for x in told.replicates] == [1.1, None, 1.1]


def test_status_warnings_and_clocks_of_all_runs() -> None:
    more: dict[str, Any] = {"status": "contended", "warnings": ("late",), "clock": "cpu", "witnesses": 4, "waits": 0.1}
    fields = (24, {"lost": 0.5}), (8, more | {"lost": 0.1})
    runs = [
        replace(run, results=tuple(replace(x, **how) for x in run.results))
        for n, how in fields
        for run in [one(1.1, n)]
    ]
    found = replicates.combined(runs).results[0]
    assert (found.status, found.warnings) == ("contended", ("late", replicates.OTHER_CLOCK))
    assert (found.witnesses, found.waits, found.lost) == (4, 0.1, pytest.approx(0.4))
    runs[0] = replace(runs[0], results=one(1.1, 24).results)
    assert replicates.combined(runs).results[0].lost is None


def test_notes_of_all_runs_stay_but_those_of_their_own_rounds() -> None:
    notes = ("one case includes a Python call", "16 rounds do not see slow change")
    found = replicates.combined([one(1.1, notes=notes), one(1.1, notes=(*notes, "late"))])
    assert found.comparisons[0].notes == notes[:1]


def test_too_few_rounds_have_no_interval() -> None:
    (told,) = replicates.combined([one(1.1, 4), one(1.1, 16)]).comparisons
    assert (told.ratio, told.verdict) == (None, "unresolved") and str(stats.FEWEST) in (told.reason or "")


def test_every_pass_has_another_order_and_fresh_workers(
    gemm: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []
    monkeypatch.setattr(Workers, "end", lambda self, end=Workers.end: (ended.append(len(self._alive)), end(self)))
    path = tmp_path / "run.jsonl"
    words = [*WORDS[:1], "8,16,24,32", *WORDS[2:]]
    assert gemm(*words, "--replicate", "3", "-o", str(path)).code == 0
    run = store.read(path)
    taken = [(note.data["number"], note.data["contest"]["contest"]) for note in run.notes if note.topic == "replicate"]
    names = [contest.contest for contest in run.contests]
    assert len(names) == 4 and len(taken) == 12
    orders = [[name for number, name in taken if number == i] for i in range(3)]
    assert all(sorted(order) == sorted(names) for order in orders) and len({tuple(x) for x in orders}) > 1
    assert len(ended) >= 3 and all(count == 1 for count in ended[1:3]), "one worker, which the pass began"
    for contest in run.contests:
        assert {p for x in contest.results for p in x.processes} == {0, 1, 2}
        assert len(contest.comparisons[0].replicates) == 3
        starts = [x.samples[0] for x in contest.results if x.role == "measured"]
        assert len(set(starts)) == 2


def test_a_killed_run_goes_on(gemm: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What had ended is not measured again."""
    path, append = tmp_path / "run.jsonl", RunFile.append
    words = (*WORDS, "--replicate", "3", "-o", str(path))

    def stop(self: RunFile, record: Contest | Note) -> None:
        if len(self.run.notes) == 4:
            raise KeyboardInterrupt
        append(self, record)

    with monkeypatch.context() as patch:
        patch.setattr(RunFile, "append", stop)
        ran = gemm(*words)
    assert ran.code == 130 and "0 of 2 contests finished, 4 of 6 runs of them" in ran.err
    before = path.read_bytes()
    assert gemm(*words, "--resume").code == 0
    assert path.read_bytes().startswith(before)
    run = store.read(path)
    numbers = [note.data["number"] for note in run.notes if note.topic == "replicate"]
    assert numbers == [0, 0, 1, 1, 2, 2] and len(run.contests) == 2


@pytest.mark.parametrize(
    ("first", "again", "says"),
    [
        (["--replicate", "3"], ["--replicate", "2"], "of 3 runs"),
        (["--replicate", "3"], [], "of 3 runs"),
        (["--replicate", "3"], ["--variant", "naive"], "other cases"),
        ([], ["--replicate", "3"], "of 1 run, "),
    ],
)
def test_a_file_of_another_number_is_refused(
    gemm: Callable[..., Ran], tmp_path: Path, first: list[str], again: list[str], says: str
) -> None:
    path = str(tmp_path / "run.jsonl")
    assert gemm(*WORDS, *first, "-o", path).code == 0
    ran = gemm(*WORDS, *again, "-o", path, "--resume")
    assert ran.code == 2 and says in ran.err
