"""What holds of every question's contests, and which question a plain command line asks."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from micro.planning.benchmark import NothingWritten
from micro.planning.contest import Contest, parse
from micro.planning.options import request
from micro.planning.repeat import Repeat
from tests.micro.plans import BENCHMARKS, contests

QUESTIONS = [
    (name, f"--{flag.replace('_', '-')}")
    for name, benchmark in BENCHMARKS.items()
    for flag in benchmark.questions
    if flag not in ("engines", "gaps", "beside", "pageable", "exchange")  # of a GPU
]
MEANT = {  # fields that a word of a contest stands for, beside the field of its name
    "operation": {"rows", "cols"},
    "padding": {"pad", "pad_top", "pad_left", "pad_bottom", "pad_right"},
    "isa": {"threads", "steps", "chains", "processors"},
    "pools": {"threads"},
    "what ran before": {"after"},
    "strategy": {"trans"},
    "heap": {"memory"},
}


pytestmark = pytest.mark.usefixtures("four_cores")


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("micro.contests.cpu.cores", lambda: 4)


@pytest.mark.parametrize("device", ["cpu", pytest.param("fake:cuda", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "question"), QUESTIONS)
def test_names_and_lines_lead_back_to_the_case(name: str, question: str, device: str) -> None:
    try:
        every = contests(name, question, "--device", device)
    except NothingWritten:
        return
    assert len({contest.name for contest in every}) == len(every) > 0
    kinds = {(x.name.partition("/")[0], case.problem.op): case for x in every for case in x.cases}
    for case in (case for contest in every for case in contest.cases):
        again = parse(case.name)
        assert (again.problem, again.variant, again.setting) == (case.problem, case.variant, case.setting)
    for case in kinds.values():
        line = Repeat(name, BENCHMARKS[name].swept).line(case)
        if "micro.ceiling" not in line and not line.endswith("--clock") and "--only" not in line:
            (again,) = [x for contest in contests(name, *shlex.split(line)[3:]) for x in contest.cases]
            assert (again.problem, again.variant, again.setting) == (case.problem, case.variant, case.setting)


@pytest.mark.parametrize(("name", "question"), QUESTIONS)
def test_cases_differ_in_what_the_contest_names(name: str, question: str) -> None:
    for contest in contests(name, question):
        if not contest.differs.startswith("work: differs"):
            words = contest.differs.split(" and ")
            assert differing(contest) <= set(words).union(*(MEANT.get(word, ()) for word in words)), contest.name


def differing(contest: Contest) -> set[str]:
    """Return the fields of problem and setting in which a contest's cases differ."""
    rows: list[dict[str, Any]] = [vars(case.problem) | case.setting.values for case in contest.cases]
    return {field for row in rows for field in row if row[field] != rows[0].get(field)}


@pytest.mark.parametrize(
    ("name", "line", "default"),
    [
        ("launch", "", True),
        ("launch", "--chain 2 --vary chain", False),
        ("launch", "--variant c", False),
        ("memory", "--budget 20s --json -", True),
        ("memory", "--cold-operands", False),
        ("memory", "--memory fresh", False),
        ("memory", "--kind=copy --size 4096", False),
        ("update", "--k 8", True),
        ("update", "--batch --k 8", False),
        ("update", "--together --budget 2s", False),
        ("optimizer", "", True),
        ("elementwise", "--budget 2s", True),
        ("elementwise", "--count 8", False),
        ("elementwise", "--batch 8", False),
    ],
)
def test_a_plain_line_asks_the_default_question(name: str, line: str, default: bool) -> None:
    assert (BENCHMARKS[name].default in request(BENCHMARKS[name], name, line.split())[1].flags) == default
