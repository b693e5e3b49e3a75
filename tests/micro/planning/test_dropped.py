"""What a person named is planned, or refused in one line; nothing is passed over."""

from __future__ import annotations

import json
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest

from kernels.errors import UsageError
from micro.planning.benchmark import NothingWritten
from micro.planning.contest import Contest
from tests.micro import plans
from tests.micro.plans import BENCHMARKS

pytestmark = pytest.mark.usefixtures("four_cores")


def contests(line: str) -> tuple[Contest, ...]:
    return plans.contests(*line.split())


# Cold operands


@pytest.mark.parametrize("name", BENCHMARKS)
def test_where_all_operands_are_cold_each_problem_has_its_own(name: str) -> None:
    found = BENCHMARKS[name]
    for flag, question in ((found.default, found.questions.get(found.default)), *found.questions.items()):
        asked = f"--{flag.replace('_', '-')}" if flag else ""
        try:
            found_here = contests(f"{name} {asked} {'--all' if question and question.all else ''} --cold all")
        except NothingWritten:  # a GPU's question
            continue
        for contest in found_here:
            for case in contest.cases:
                own = tuple(x.name for x in case.problem.operands())
                warm = contest.name.startswith("cold/") and not case.setting.cold  # what cold ones are set against
                assert warm or case.setting.cold == own, case.name


def test_along_an_axis_names_tell_the_operands_of_their_first_problem() -> None:
    first, second = contests("launch --chain 1 --vary chain --variant c --cold all")
    assert first.name.endswith("/vary:chain/variant:c/threads:1/cold:a+b+c")
    assert second.name.endswith("/vary:chain/variant:c/threads:1/cold:x")
    (contest,) = contests("launch --kernel empty --threads 1,2 --vary threads --variant c --cold all")
    assert contest.name.endswith("/vary:threads/variant:c/threads:1/cold:x")


def test_operands_of_all_directions_that_are_asked_can_be_cold(tmp_path: Path) -> None:
    sizes = "--n 2 --c 4 --h 8 --w 8 --k 4"
    forward, dgrad = contests(f"conv {sizes} --direction forward,dgrad --cold w,dx --variant torch")
    assert dgrad.cases[0].setting.cold == ("w", "dx") and "could be cold" not in (dgrad.cases[0].skip or "")
    assert forward.cases[0].skip == "no operand dx that could be cold: there are x, w, y"
    with pytest.raises(UsageError, match="--cold dw: the operands are dy, w, dx; or all"):
        contests(f"conv {sizes} --direction dgrad --cold dw")
    written = {"source": "here", "problems": [{"n": 2, "c": 4, "h": 8, "w": 8, "k": 4, "direction": "wgrad"}]}
    path = tmp_path / "problems.json"
    path.write_text(json.dumps(written), "utf-8")
    (of_file,) = contests(f"conv --shapes {path} --cold dw --variant torch")
    assert of_file.cases[0].setting.cold == ("dw",)


# What modifies a question

ON_A_GPU = dict.fromkeys(("engines", "gaps"), " --device fake:cuda")  # questions that nothing else answers
ALL = {(name, flag): question for name, one in BENCHMARKS.items() for flag, question in one.questions.items()}


@pytest.mark.parametrize(("name", "flag"), ALL)
@pytest.mark.parametrize("modifier", ["full", "all"])
def test_a_modifier_changes_what_its_help_says_and_is_refused_elsewhere(name: str, flag: str, modifier: str) -> None:
    line = f"{name} --{flag.replace('_', '-')}{ON_A_GPU.get(flag, '')}"
    if vars(ALL[name, flag])[modifier]:
        assert contests(f"{line} --{modifier}") != contests(line)
    else:
        with pytest.raises(
            UsageError, match=rf"^(--{modifier}: .* measures the same without it|unrecognized arguments)"
        ):
            contests(f"{line} --{modifier}")


# Data


def test_named_data_are_taken() -> None:
    for words, data in (("", "uniform"), ("--data uniform", "uniform"), ("--data zeros", "zeros")):
        for line in (f"gather --step {words}", f"optimizer --rules {words}"):
            assert {case.setting.data for contest in contests(line) for case in contest.cases} == {data}


# Files of problems


def test_problems_that_are_alike_are_one(tmp_path: Path) -> None:
    """By a varied axis, or because they stand twice in a file."""
    file, same = tmp_path / "two.json", {"m": 8, "n": 8, "k": 8}
    file.write_text(json.dumps({"problems": [same | {"m": m} for m in (1, 2)]}))
    (contest,) = contests(f"gemm --shapes {file} --vary m --m 8,16 --variant openblas")
    assert [case.problem.m for case in contest.cases] == [8, 16]  # type: ignore[attr-defined]
    file.write_text(json.dumps({"problems": [same, {**same, "k": 9}, {**same, "alpha": 1}]}))
    found = contests(f"gemm --shapes {file} --variant openblas")
    assert [contest.name for contest in found] == ["gemm/m:8/n:8/k:8", "gemm/m:8/n:8/k:9"]


# Questions


@pytest.mark.parametrize(
    "line",
    [
        "gemm --transpose --m 64,128 --n 32 --k 16",
        "gemm --crossover --m 5,6 --variant openblas",
        "gemm --net fcn-r --m 7",
        "launch --chain 4 --kernel empty",
        "gather --lookup --rows 16,32 --width 8 --batch 4",
        "update --fused --m 8,16 --n 16 --k 4",
        "memory --page 4096",
    ],
)
def test_a_question_has_cases_of_what_it_was_asked(line: str) -> None:
    found = BENCHMARKS[line.split()[0]]
    axes = {field.name for field in fields(found.problem)}
    words = line.split()
    named = {word[2:]: text for word, text in pairwise(words) if word[2:] in axes}
    problems = [case.problem for contest in contests(line) for case in contest.cases]
    for axis, text in named.items():
        assert set(text.split(",")) <= {str(vars(x)[axis]) for x in problems if x.op == found.problem.op}
