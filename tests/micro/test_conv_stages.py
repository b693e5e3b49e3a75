"""micro.conv --stages and --plans: which cases stand against which, and what is said of a finished run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.errors import UsageError
from kernels.ops.conv import stages as apart
from kernels.ops.conv.problem import Conv
from micro import conv
from micro.answers.conv_stages import plans_answer, stages_answer
from micro.planning.contest import Case, Contest
from micro.planning.options import request
from micro.planning.request import planned
from reports import record
from reports.record import Comparison, Environment, Result, Run, Seconds
from reports.stats import SHOWN

LAYER = Conv(16, 64, 27, 27, 64, 3, 3, pad=1)
ROUNDS = (0.99, 1.0, 1.01, 1.0, 0.99, 1.01, 1.0, 1.0)  # of every time


def contests(*words: str) -> tuple[Contest, ...]:
    meant, arguments = request(conv.BENCHMARK, "conv", words, raising=True)
    return planned(meant, "conv", arguments).contests


def variants(contest: Contest) -> list[str]:
    return [case.variant for case in contest.cases]


@pytest.mark.parametrize("direction", ["forward", "dgrad", "wgrad"])
def test_each_stage_stands_against_the_whole_call(direction: str) -> None:
    every = contests("--stages", "--all", "--direction", direction)
    assert {x.cases[0].variant for x in every} == set(apart.STAGED)
    for contest in every:
        name, *stages = variants(contest)
        assert stages == [f"stage:{name}:{word}" for word in apart.names(name, contest.cases[0].problem)]  # type: ignore[arg-type]
        assert contest.comparisons == tuple((0, i) for i in range(1, 5))
        assert contest.differs.startswith("work: differs") and len({case.problem for case in contest.cases}) == 1


def test_on_a_gpu_the_stages_are_of_its_own_kernels() -> None:
    usual = contests("--stages", "--device", "fake:cuda")
    assert [x.cases[0].variant for x in usual] == ["cuda-winograd-4x3", "cufft"]
    assert [case.problem.r for x in usual for case in x.cases] == [3] * 5 + [5] * 5  # type: ignore[attr-defined]
    every = contests("--stages", "--all", "--device", "fake:cuda")
    assert {x.cases[0].variant for x in every} == {"cufft", "cuda-winograd-2x3", "cuda-winograd-4x3"}
    assert not any(case.skip for x in (*usual, *every) for case in x.cases)


def test_by_default_few_kernels_go_forward() -> None:
    every = contests("--stages")
    assert {case.problem.direction for x in every for case in x.cases} == {"forward"}  # type: ignore[attr-defined]
    assert {"winograd-4x3", "fft-scipy", "fft-pyfftw"} <= {x.cases[0].variant for x in every}
    assert len(every) < 6 < len(contests("--stages", "--all"))


def test_a_search_stands_against_one_of_less_and_its_plans_against_its_calls() -> None:
    by_name = {x.name.rpartition(":")[2]: x for x in contests("--plans")}
    assert set(by_name) == {"fft-pyfftw", "fft-pyfftw-patient", "fft-pyfftw-unaligned"}
    assert variants(by_name["fft-pyfftw-patient"]) == [
        "fft-pyfftw",
        "fft-pyfftw-patient",
        "plan:fft-pyfftw",
        "plan:fft-pyfftw-patient",
        "plan:fft-pyfftw-patient:again",
    ]
    assert by_name["fft-pyfftw"].comparisons == ((0, 1), (0, 2), (1, 3), (1, 4))
    assert variants(by_name["fft-pyfftw-unaligned"]) == ["fft-pyfftw", "fft-pyfftw-unaligned"]


@pytest.mark.parametrize(
    ("question", "variant", "remedy"),
    [("--stages", "fft-scipy-kept", "fft-scipy"), ("--plans", "fft-pyfftw-estimate", "fft-pyfftw")],
)
def test_a_variant_without_the_question_is_refused_by_name(question: str, variant: str, remedy: str) -> None:
    with pytest.raises(UsageError, match=f"--variant {variant}: .*{remedy}"):
        contests(question, "--variant", variant)


# Answers


def result(problem: Conv, variant: str, seconds: float) -> Result:
    timed = Seconds(seconds, None, None, SHOWN)
    samples = tuple(seconds * each for each in ROUNDS)
    name = Case(problem, variant).name
    return Result(name, "x", "measured", "conv", {}, variant, "cpu", 1, "ok", seconds=timed, samples=samples)


def contest(word: str, times: dict[str, float], *pairs: tuple[str, str], verdict: str = "faster") -> record.Contest:
    """Of cases of one layer: pairs of a baseline and a contender."""
    results = {name: result(LAYER, name, seconds) for name, seconds in times.items()}
    compared = []
    for first, second in pairs:
        ratio = times[second] / times[first]
        names = results[first].name, results[second].name
        ends = ratio * 0.98, ratio * 1.02
        compared.append(Comparison("x", "work", *names, ratio, *ends, SHOWN, verdict, None, 0.01, 0.01))
    return record.Contest(f"{word}/{LAYER.name}", "?", "work: differs", tuple(results.values()), tuple(compared))


def run(*all_contests: record.Contest) -> Run:
    return Run(Environment("0", {}, {}, "", ""), all_contests)


STAGES = {"transform-x": 0.1, "transform-w": 0.2, "products": 0.5, "inverse-y": 0.1}
TIMES = {"winograd-4x3": 1.0} | {f"stage:winograd-4x3:{word}": seconds for word, seconds in STAGES.items()}


def test_shares_of_stages_and_what_is_left_are_said() -> None:
    measured = contest("stages", TIMES, *[("winograd-4x3", name) for name in TIMES if name.startswith("stage:")])
    (sentence,) = stages_answer(run(measured))
    assert sentence == (
        "Of forward by winograd-4x3, 3×3, 64→64 channels, 27×27, batch 16: the products take 50 % [49, 51], "
        "the filter's transform 20 % [19.6, 20.4], the image's transform 10 % [9.8, 10.2], the inverse transform "
        "10 % [9.8, 10.2]; together 900 ms for a call of 1.00 s, which leaves 10 % [10, 10] of it."
    )


def test_a_sum_with_a_stage_missing_is_none() -> None:
    some = {name: seconds for name, seconds in TIMES.items() if not name.endswith("products")}
    measured = contest("stages", TIMES, *[("winograd-4x3", name) for name in TIMES if name.startswith("stage:")])
    results = tuple(x for x in measured.results if x.variant in some)
    (sentence,) = stages_answer(run(replace(measured, results=results)))
    assert sentence.endswith("not all stages have a time.")


PLANS = {
    "fft-pyfftw-estimate": 0.030,
    "fft-pyfftw": 0.020,
    "plan:fft-pyfftw-estimate": 0.001,
    "plan:fft-pyfftw": 0.096,
    "plan:fft-pyfftw:again": 0.002,
}


def test_after_how_many_calls_a_search_pays() -> None:
    (sentence,) = plans_answer(run(contest("plans", PLANS, ("fft-pyfftw-estimate", "fft-pyfftw"))))
    assert "a call of fft-pyfftw takes 0.667 [0.653, 0.680] times one of fft-pyfftw-estimate" in sentence
    assert "its plans 96.0 ms, 2.00 ms again with its wisdom, those of fft-pyfftw-estimate 1.00 ms" in sentence
    assert sentence.endswith("it pays after 10 calls.")
    (doubtful,) = plans_answer(
        run(contest("plans", PLANS, ("fft-pyfftw-estimate", "fft-pyfftw"), verdict="unresolved"))
    )
    assert doubtful.endswith("no call is certainly faster by it.")


def test_plans_for_arrays_anywhere_have_a_ratio_alone() -> None:
    times = {"fft-pyfftw": 0.02, "fft-pyfftw-unaligned": 0.025}
    (sentence,) = plans_answer(run(contest("plans", times, ("fft-pyfftw", "fft-pyfftw-unaligned"))))
    assert sentence.endswith("a call of fft-pyfftw-unaligned takes 1.250 [1.225, 1.275] times one of fft-pyfftw.")
