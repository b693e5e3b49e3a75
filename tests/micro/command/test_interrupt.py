"""An interrupt keeps the rounds of the contest in flight; `--resume` measures that contest anew. On the fake device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from micro.command.outputs import Progress
from micro.measuring import rounds
from micro.worker.process import Workers
from reports import store
from reports.record import Contest
from tests.conftest import Ran

CASES = ("--m", "8,16", "--n", "8", "--k", "8", "--variant", "openblas,naive")
WORDS = (*CASES, "--device", "fake", "--budget", "1s", "-q")
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
    assert "interrupted; 1 of 2 contests had ended, 1 more has its rounds until then: they are in" in ran.err
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
    assert ran.code == 130 and "-o FILE would have kept them" in ran.err
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
    assert ran.code == 130 and "0 of 2 contests had ended, 2 more have their rounds until then, 3 of 6 runs" in ran.err
    kept = store.read(path).contests
    assert {contest.stopped for contest in kept} == {f"interrupted after {count} of 3 runs" for count in (1, 2)}
    interrupt(KeyboardInterrupt(), 0, 0)
    assert gemm(*WORDS, "--replicate", "3", "-o", str(path), "--resume").code == 0
    assert [len(contest.comparisons[0].replicates) for contest in store.read(path).contests] == [3, 3]


def test_an_interrupted_worker_is_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is still to come, and would be taken for that of the next request."""
    from micro.measuring import workers

    class Silent:
        def close(self) -> None:
            pass

    def interrupted(*request: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(workers, "ask", interrupted)
    alive = Workers()
    alive._alive[("cpu",)] = Silent()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        workers.Crew(alive, (), 0)._ask(("cpu",), workers.Close(), 1.0)
    assert alive.alive(("cpu",)) is None
