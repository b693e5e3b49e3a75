"""What is said of a run of micro.elementwise, on runs made by hand."""

from __future__ import annotations

from kernels.ops.activation import Activation
from kernels.ops.norm import Norm
from kernels.ops.pooling import Pooling
from kernels.ops.softmax import Softmax
from kernels.problem import Problem
from micro.answers.elementwise import answer, level
from micro.planning.contest import Case
from reports.record import Comparison, Contest, Environment, Result, Run, Seconds

CACHES = [32 << 10, 1 << 20, 32 << 20]


def result(problem: Problem, variant: str, seconds: float | None, kernel: str | None = None) -> Result:
    case, status = Case(problem, variant), "ok" if seconds else "skipped"
    return Result(
        case.name,
        "x",
        "measured",
        problem.op,
        {},
        variant,
        "cpu",
        1,
        status,  # type: ignore[arg-type]
        None if seconds else "not here",
        kernel=kernel,
        seconds=Seconds(seconds, None, None, 0.95) if seconds else None,
        bytes_per_second=problem.bytes / seconds if seconds else None,
    )


def contest(word: str, *results: Result, reads: float = 1e11, size: int = 1 << 20) -> Contest:
    first = results[0]
    compared = []
    for other in results[1:]:
        ratio = other.seconds.median / first.seconds.median if other.seconds and first.seconds else None
        ends = (0.9 * ratio, 1.1 * ratio) if ratio else (None, None)
        compared.append(
            Comparison("x", "variant", first.name, other.name, ratio, *ends, 0.95, "slower", None, 0.01, 0.01)
        )
    ceiling = Result(
        "read",
        "x",
        "ceiling",
        "stream",
        {"kind": "read", "size": size},
        "c",
        "cpu",
        1,
        "ok",
        seconds=Seconds(1e-5, None, None, 0.95),
        bytes_per_second=reads,
    )
    return Contest(f"{word}/somewhere", "?", "variant", (*results, ceiling), tuple(compared))


def said(*contests: Contest) -> list[str]:
    facts = {"device": {"caches": CACHES}}
    return answer(Run(Environment("0", facts, {}, "", ""), contests))


def test_level_of_a_working_set() -> None:
    assert [level(x, CACHES) for x in (1, 32 << 10, (32 << 10) + 1, 2 << 20, 33 << 20)] == [
        "L1",
        "L1",
        "L2",
        "L3",
        "memory",
    ]
    assert level(1, []) == "memory"
    assert [level(x, [50 << 20]) for x in (1, 50 << 20, (50 << 20) + 1)] == ["L2", "L2", "memory"]  # a GPU's


def test_a_sentence_tells_bytes_level_and_share() -> None:
    problem = Activation(131072, "sigmoid")
    first, second = said(
        contest("activation", result(problem, "c", 2e-5, "ours"), result(problem, "numpy", 4e-5, "theirs"))
    )
    assert first == (
        "sigmoid of 131072 elements: numpy takes 2.00 [1.80, 2.20] times what c takes "
        "(activation 131072; 1 MiB: L2, 26.2 GB/s, 26 % of reads there): slower."
    )
    assert second == "Whose functions: c: ours; numpy: theirs."


def test_a_normalization_with_its_gradients_says_so() -> None:
    for phase, where in (("forward", "(norm 2×3×5;"), ("step", "(norm 2×3×5, forward and gradients;")):
        problem = Norm(2, 3, 5, phase=phase)
        assert where in said(contest("fused", result(problem, "c", 1e-6), result(problem, "c-ops", 2e-6)))[0]


def test_reads_are_those_of_the_nearest_working_set() -> None:
    problem = Activation(131072)
    one = contest("place", result(problem, "c", 2e-5), result(Activation(131072, place="in"), "c", 1e-5))
    assert "100 % of reads there" not in said(one)[0]
    assert said(one)[0].startswith("In place relu takes 0.50 [0.45, 0.55] times what it takes out of place, by c")


def test_a_double_softmax_names_the_layer() -> None:
    plain, twice = Softmax(64, 10), Softmax(64, 10, before="log-softmax")
    (sentence,) = said(contest("doubled", result(plain, "c", 1e-6), result(twice, "c", 3e-6)))
    assert sentence.startswith("A log-softmax before the loss's own softmax takes 3.00 [2.70, 3.30] times")
    assert "by c; the answer is the same (softmax 64×10;" in sentence
    other = Softmax(64, 10, before="softmax")
    (sentence,) = said(contest("doubled", result(plain, "c", 1e-6), result(other, "c", 3e-6)))
    assert "the answer is the same" not in sentence


def test_relu_after_is_told_as_one_answer() -> None:
    problem = Pooling(2, 3, 9, 3, relu="yes")
    (sentence,) = said(
        contest("relu-place", result(problem, "c-relu-before", 2e-6), result(problem, "c-relu-after", 1e-6))
    )
    assert sentence.startswith(
        "ReLU after max-pooling takes 0.50 [0.45, 0.55] times what it takes before it (c-relu-after)"
    )
    assert "pooling 2×3×9, window 3" in sentence


def test_what_has_no_ratio_is_not_told() -> None:
    problem = Activation(8)
    assert said(contest("activation", result(problem, "c", 1e-6), result(problem, "torch", None))) == []
    assert said(contest("unheard-of", result(problem, "c", 1e-6), result(problem, "numpy", 1e-6))) == []
