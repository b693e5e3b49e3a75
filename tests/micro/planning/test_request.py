"""One way from a command line to its contests, for the command, Python and `micro.ab`; and back, by the line that
repeats a case."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import micro
from kernels.errors import UsageError
from kernels.ops.gemm.problem import Gemm
from kernels.setting import Setting
from micro import ab, ceiling, selftest
from micro.arms.server import Arm
from micro.command.line import main
from micro.contests.conv_find import again
from micro.planning.benchmark import Request
from micro.planning.contest import Case
from micro.planning.options import request
from micro.planning.repeat import Repeat
from reports import record, store
from tests.conftest import Ran
from tests.micro.plans import BENCHMARKS, contests

REFERENCE = Path(__file__).parents[3] / "reports/reference"
DEVICES = ("cpu", "fake:cuda")


pytestmark = pytest.mark.usefixtures("four_cores")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_command_python_and_ab_plan_the_same(
    name: str, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    listed = in_process(capsys, main, BENCHMARKS[name], name, ["--list"]).out.splitlines()
    names = [line.partition(" (differs")[0] for line in listed if not line.startswith(" ")]
    assert names == [contest.name for contest in micro.plan(name).contests]
    cases = dict.fromkeys(line.split()[0] for line in listed if line.startswith(" "))
    assert [*cases] == [case["name"] for case in Arm("fake").plan([f"micro.{name}"])["cases"]]


def repeated(name: str, line: str) -> list[Case]:
    """The cases that a line of a benchmark measures."""
    return [case for contest in contests(name, *shlex.split(line)[3:]) for case in contest.cases]


@pytest.mark.parametrize("device", DEVICES)
def test_ceilings_and_selftests_are_repeated_whole(
    device: str, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    case = replace(contests("gemm", "--transpose", "--device", device)[0].cases[0], role="ceiling")
    words = shlex.split(Repeat("gemm").line(case))[3:]
    assert words == ([] if device == "cpu" else ["--device", device])
    ran = in_process(capsys, ceiling.main, [*words, "--list"])
    assert ran.code == 0 and "peak (differs:" in ran.out
    assert Repeat("selftest").line(replace(case, role="measured")) == "python -m micro.selftest"


def test_an_axis_that_the_default_question_does_not_read_is_not_dropped() -> None:
    for line in ("update --part wgrad", "gather --does step", "optimizer --lr 0.5", "memory --pause 1"):
        name, *words = line.split()
        found = BENCHMARKS[name]
        assert found.default and found.default not in request(found, name, words, raising=True)[1].flags


REMOVED = re.compile(r"--variant \S*(nnpack|-dft)")  # rows that committed files have and the tables no longer
COMMITTED = {path.name: path for path in sorted(REFERENCE.rglob("*.jsonl"))}


def understood(line: str) -> bool:
    """Whether the command of a line takes its words."""
    _, _, module, *words = shlex.split(line)
    if module == "micro.ab":
        return bool(ab.parser().parse_args(words).words)
    if module == "macro":
        own: Any = importlib.import_module(f"macro.{words[0]}")
        return bool(own.parser().parse_args(words[1:]).network)
    if module in ("micro.ceiling", "micro.selftest"):
        own = {"micro.ceiling": ceiling, "micro.selftest": selftest}[module]
        return own.parser().parse_args(words) is not None
    return bool(repeated(module.removeprefix("micro."), line))


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMITTED)
def test_every_line_of_a_committed_run_file_is_understood(name: str) -> None:
    for line in sorted({result.repeat for result in store.read(COMMITTED[name]).results} - {""}):
        with pytest.raises(UsageError) if REMOVED.search(line) else nullcontext():
            assert understood(line), line


@pytest.mark.parametrize("line", ["python -m micro.gemm --mm 4", "python -m macro run fcn-s --framework x"])
def test_a_line_that_is_not_understood_is_found(line: str) -> None:
    with pytest.raises((SystemExit, UsageError)):
        understood(line)


# Planned again from a result


SMALL = Gemm(8, 8, 8)
CASES = [Case(SMALL, name, Setting(2, workspace=512)) for name in ("numpy", "openblas", "naive")]
MEASURED = record.Contest(f"first/{SMALL.name}/device:x", "who?", "variant", (), ())


def asked(device: str = "cpu") -> Request:
    return Request("gemm", {}, ("openblas",), (Setting(device=device),), frozenset())


@pytest.mark.parametrize(("in_turn", "pairs"), [(False, ((0, 1), (0, 2))), (True, ((0, 1), (1, 2)))])
def test_its_cases_are_those_that_were_chosen(in_turn: bool, pairs: tuple[tuple[int, int], ...]) -> None:
    names = [case.name for case in (CASES[2], CASES[0], CASES[1])]
    (contest,) = again(asked(), MEASURED, "second", "still?", names, in_turn=in_turn)
    assert (contest.name, contest.question, contest.differs) == (f"second/{SMALL.name}/device:x", "still?", "variant")
    assert ([case.name for case in contest.cases], contest.comparisons) == (names, pairs)
    assert again(asked("fake"), MEASURED, "second", "still?", names) == [], "another device measured it"


# Names of axes and of variants


def test_other_words_name_axes_that_there_are() -> None:
    for benchmark in BENCHMARKS.values():
        named = {axis for axes in benchmark.problem.called.values() for axis in axes}
        assert named <= {axis.name for axis in fields(benchmark.problem)}
        assert not benchmark.problem.called.keys() & {axis.name for axis in fields(benchmark.problem)}
