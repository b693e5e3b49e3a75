"""What is said of contests that had no time for an interval."""

from __future__ import annotations

from dataclasses import replace

from kernels.ops.conv.problem import Conv
from micro.answers import few_rounds
from reports import record
from tests.micro.conv_runs import contested, run

LAYER = Conv(16, 96, 27, 27, 256, 5, 5, pad=2)
TIMES = {"torch": 138.0, "direct": 127.0, "fft-pyfftw-kept": 57.5}


def short(rounds: int = 2, problem: Conv = LAYER) -> record.Contest:
    """Timed by so few rounds that there is no ratio."""
    full = contested("algorithms", problem, TIMES)
    compared = tuple(replace(x, ratio=None, low=None, high=None, verdict="unresolved") for x in full.comparisons)
    timed = tuple(replace(x, samples=(x.seconds.median,) * rounds) for x in full.results if x.seconds)
    return replace(full, comparisons=compared, results=timed)


def test_the_order_by_two_rounds_is_said_and_that_it_is_not_certain() -> None:
    assert few_rounds.sentences(run(short())) == [
        "conv n:16 c:96 h:27 w:27 k:256 r:5 s:5 pad:2: by 2 rounds, not certain: "
        "fft-pyfftw-kept 57.5 ms, direct 127 ms, torch 138 ms."
    ]
    assert "by 1 round, not" in few_rounds.sentences(run(short(1)))[0]


def test_a_contest_with_a_ratio_is_left_to_its_own_answer() -> None:
    known = short().comparisons[0]
    partly = replace(short(), comparisons=(replace(known, ratio=0.9, low=0.8, high=1.0), *short().comparisons[1:]))
    assert few_rounds.sentences(run(contested("algorithms", LAYER, TIMES), partly)) == []


def test_what_was_wrong_is_not_ranked() -> None:
    wrong = tuple(replace(one, verdict="not comparable") for one in short().comparisons)
    assert few_rounds.sentences(run(replace(short(), comparisons=wrong))) == []


def test_of_many_contests_the_first_are_said() -> None:
    many = [short(problem=replace(LAYER, n=n)) for n in range(1, few_rounds.MOST + 4)]
    said = few_rounds.sentences(run(*many))
    assert len(said) == few_rounds.MOST + 1 and said[-1] == "3 more contests have times without a ratio."
