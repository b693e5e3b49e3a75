"""The plan of micro.elementwise: which contests a question makes, that their names lead back, the command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kernels.catalog import find
from kernels.errors import UsageError
from kernels.ops.activation import Activation
from kernels.setting import Setting
from micro import elementwise
from micro.contests import elementwise as build
from micro.planning.benchmark import Request, default_rows, outside_caches
from micro.planning.contest import Contest
from micro.planning.options import request
from tests.conftest import Ran


def asked(*flags: str, device: str = "cpu", variant: tuple[str, ...] = (), **axes: Any) -> Request:
    made = elementwise.BENCHMARK
    given = frozenset((*axes, *(("variant",) if variant else ())))
    default = default_rows(made, device)
    return Request(
        "activation", made.sweep | axes, variant or tuple(default), (Setting(device=device),), frozenset(flags), given
    )


def contests(question: str, *flags: str, **how: Any) -> list[Contest]:
    return elementwise.QUESTIONS[question].build(asked(*flags, **how))


def test_all_here_are_accepted() -> None:
    """What is skipped is so because it is not installed, never because it was asked for what it cannot do."""
    for question in elementwise.QUESTIONS:
        for contest in contests(question, "all"):
            for case in contest.cases:
                assert find(case.problem.op, case.variant).accepts(case.problem) is None, case.name


@pytest.mark.parametrize("question", ["activations", "softmax", "inplace", "exp", "overview"])
def test_on_a_gpu_there_are_contests_of_its_kernels(question: str) -> None:
    for contest in contests(question, device="fake:cuda"):
        for case in contest.cases:
            row = find(case.problem.op, case.variant)
            assert row.device == "cuda" and row.accepts(case.problem) is None


def test_count_shrinks_every_problem() -> None:
    for question in elementwise.QUESTIONS:
        found = contests(question, count=(512,))
        assert len({contest.name for contest in found}) == len(found)
        for contest in found:
            assert all(case.problem.footprint <= 32 * 1024 for case in contest.cases)
    assert not any("count:512" in contest.name for contest in contests("activations"))


@pytest.mark.parametrize("question", ["activations", "softmax", "inplace"])
def test_on_a_gpu_one_size_comes_from_memory_and_says_so(question: str) -> None:
    """Every operand of such a contest's cases together, also in place; the others' lie in a second-level cache."""
    found = contests(question, device="fake:cuda")
    far = [x for x in found if min(case.problem.footprint for case in x.cases) >= outside_caches("fake:cuda")]
    assert far and {x.name for x in far} == {x.name for x in found if "from a GPU's memory" in x.question}
    near = [case.problem.footprint for x in found if x not in far for case in x.cases]
    assert max(near) < outside_caches("fake:cuda") // 4
    assert outside_caches("fake:cuda") >= 4 * 60e6 and "256 MiB" in far[0].question
    assert not any("GPU" in x.question for x in contests(question))


def test_the_largest_softmax_only_with_all() -> None:
    def shapes(*flags: str) -> set[tuple[int, int]]:
        cases = [case for contest in contests("softmax", *flags) for case in contest.cases]
        return {(case.problem.batch, case.problem.classes) for case in cases}  # type: ignore[attr-defined]

    assert shapes("all") - shapes() == {build.LARGEST}
    assert set(build.NETWORKS) == shapes()


@pytest.mark.parametrize(
    ("line", "op"),
    [
        ("", "activation"),
        ("--count 8", "activation"),
        ("--batch 8", "softmax"),
        ("--classes=8 --labels one-hot", "softmax"),
        ("--rows 3 --cols 4", "biasact"),
        ("--units 3", "dropout"),
        ("--images 3 --size 9", "pooling"),
        ("--images 3 --maps 2", "norm"),
        ("--values 3 --convert clear", "cast"),
        ("--softmax --count 512", "activation"),
    ],
)
def test_axes_tell_which_operation_is_meant(line: str, op: str) -> None:
    assert request(elementwise.BENCHMARK, "elementwise", line.split())[0].problem.op == op


def test_an_operation_by_its_axes(command: Callable[..., Ran]) -> None:
    words = "--device fake -q --batch 3 --classes 7 --variant c,numpy --budget 1s"
    ran = command("elementwise", *words.split())
    assert ran.code == 0 and "softmax" in ran.out
    with pytest.raises(UsageError, match="--variant libm"):
        find("softmax", "libm")


def test_the_sweep_is_of_the_activations() -> None:
    assert elementwise.BENCHMARK.problem is Activation
    for made in elementwise.BENCHMARKS:
        for kernels in ("cpu", "cuda"):
            for name in default_rows(made, kernels):
                assert find(made.problem.op, name).device == kernels
