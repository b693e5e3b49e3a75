"""Instruction sets and threads: what questions compare, what they say of a run, what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from kernels.catalog import find
from kernels.devices.cpu import Cpu
from kernels.errors import UsageError
from kernels.ops.fma.problem import Fma
from kernels.setting import Setting
from micro import cpu
from micro.answers import cpu as answers
from micro.planning.contest import Contest, parse
from micro.planning.repeat import Repeat
from micro.worker.check import check
from micro.worker.process import Workers
from reports.record import Run
from tests import build
from tests.build import over, timed
from tests.micro.plans import contests


@pytest.fixture(autouse=True)
def four_cores_and_all_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("kernels.devices.cpu", "micro.contests.cpu"):
        monkeypatch.setattr(f"{place}.cores", lambda: 4)
        monkeypatch.setattr(f"{place}.instruction_sets", lambda: ("sse", "avx", "avx2", "avx512"))
    monkeypatch.setattr("micro.contests.cpu.features", lambda: ("avx512bf16", "amxbf16", "amxint8"))


def test_all_adds_libraries_and_those_without_a_switch_have_a_column_of_their_own() -> None:
    every = {x.name: x for x in plan("--grid --all")}
    fixed = every["grid/fft/variant:pyfftw"]
    assert {x.setting.isa for x in fixed.cases} == {"default"} and [x.setting.threads for x in fixed.cases] == [1, 2, 4]
    assert {x.setting.isa for x in every["grid/gemm/m:64/n:64/k:64/variant:mkl"].cases} > {"avx2", "avx512"}


def test_axes_kernels_sets_and_threads_that_are_named_are_taken() -> None:
    (one,) = plan("--grid --m 32 --n 48 --k 64 --variant openblas --isa avx2,avx512 --threads 2")
    assert [x.name for x in one.cases] == [
        f"gemm/m:32/n:48/k:64/variant:openblas/threads:2/isa:{isa}" for isa in ("avx2", "avx512")
    ]
    (soft,) = plan("--grid --batch 8 --classes 12 --isa avx2 --threads 1")
    assert soft.cases[0].problem.op == "softmax" and soft.cases[0].variant == "c"


def test_saturation_plans_the_texts_threads_and_says_why_they_are_skipped() -> None:
    one = plan("--saturation")[0]
    skipped = {x.setting.threads: x.skip for x in one.cases if x.skip}
    assert list(skipped) == [8, 16, 32, 64] and skipped[64] == "needs 64 cores; this process may use 4"
    assert [x.setting.threads for x in one.cases if not x.skip] == [1, 2, 4]


def test_more_threads_than_cores_are_a_question_here_and_only_here() -> None:
    beyond = [x for x in plan("--oversubscribe") if x.name.startswith("oversubscribed/")]
    assert all([case.setting.threads for case in x.cases] == [4, 8, 16] for x in beyond)
    assert not any(case.skip for x in beyond for case in x.cases if case.variant != "torch")
    nested = next(x for x in plan("--oversubscribe") if x.name.startswith("nested/"))
    assert len({Workers.key(case) for case in nested.cases}) == 3, "OpenBLAS's threads are one number of its process"
    with pytest.raises(UsageError, match=r"--threads 8: this process may use 1 to 4 cores$"):
        plan("--threads 8 --m 8 --n 8 --k 8", "gemm")
    with pytest.raises(UsageError, match=r"--threads 999: .* 4 cores, 32 threads on each"):
        plan("--oversubscribe --threads 999")
    with pytest.raises(UsageError, match="--threads 2: --oversubscribe needs more threads than the 4 available cores"):
        plan("--oversubscribe --threads 2")


def test_what_is_named_is_taken_where_it_is_the_usual_too(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = plan("--grid --m 8 --n 8 --k 8 --variant openblas --threads 1 --isa default")
    assert [x.name for x in one.cases] == ["gemm/m:8/n:8/k:8/variant:openblas/threads:1"]
    for line in ("--clock --threads 2", "--clock --isa avx2", "--width --isa avx2"):
        with pytest.raises(UsageError, match=line.partition(" ")[2]):
            plan(line)
    with pytest.raises(UsageError, match="--processors 2"):
        Fma("sse", 64 * 1024, 14, 2, "avx2")  # a burst and several cores exclude each other
    with pytest.raises(UsageError, match="--m 24: --batches needs divisors of 64"):
        plan("--batches --m 64,24", "gemm")
    monkeypatch.setattr("micro.contests.cpu.instruction_sets", lambda: ("sse", "avx", "avx2"))
    (one,) = plan("--grid --m 8 --n 8 --k 8 --variant openblas --isa avx2,avx512 --threads 1")
    assert [x.skip for x in one.cases] == [None, "this processor lacks avx512"]


@pytest.mark.parametrize("after", ["sse", "avx2"])
def test_what_is_timed_after_a_burst_is_right(after: str) -> None:
    problem, row = Fma("sse", 500, 10, after=after), find("fma", "c")
    if row.accepts(problem):
        pytest.skip(str(row.accepts(problem)))
    bind = row.prepare(problem, Cpu(), Setting())
    check(Cpu(), problem, row, bind, 3)
    blocks = [np.zeros(x.shape, np.float32) for x in problem.operands()]
    entry = bind(blocks).entry
    assert entry is not None and entry.single is not None
    assert entry.single[0] != entry.function and entry.single[1] == 24  # behind d, x and steps


def plan(line: str, name: str = "cpu") -> tuple[Contest, ...]:
    return contests(name, *line.split())


CUBE = "gemm/m:64/n:64/k:64/variant:blocked"


def measured(word: str, question: str, seconds: dict[str, float], pairs: list[tuple[str, str]]) -> Run:
    cases = {key: timed(parse(f"{CUBE}/{key}"), value, samples=(value,) * 10) for key, value in seconds.items()}
    found = tuple(over(cases[a], cases[b]) for a, b in pairs)
    return build.run(build.contest(*cases.values(), contest=f"{word}/{CUBE}", question=question, comparisons=found))


ONE, TWO = "threads:1", "threads:2"
CORNERS = {f"{ONE}/isa:avx2": 8.0, f"{TWO}/isa:avx2": 4.0, f"{ONE}/isa:avx512": 4.0, f"{TWO}/isa:avx512": 3.0}


def test_the_grid_says_what_each_brings_and_what_was_verified() -> None:
    first, *others = CORNERS
    run = measured("grid", "product 64³: what?", CORNERS, [(first, x) for x in others])
    observed = [replace(x, isa=parse(x.name).setting.isa, isa_observed="avx2") for x in run.results]
    run = build.run(replace(run.contests[0], results=tuple(observed)))
    gain, sets = answers.grid(run)
    assert gain.startswith("product 64³, blocked, times as fast as AVX2 on one thread: AVX-512 alone 2.00")
    assert "; " not in gain and "2 threads alone 2.00" in gain and "both 2.67" in gain
    assert sets.startswith("2 of 4 cells ran the requested set")


def test_the_serial_share_is_amdahls() -> None:
    for ratio, share in ((0.5, 0.0), (1.0, 1.0), (0.75, 0.5)):
        found = answers.serial([(2, ratio, ratio - 0.01, ratio + 0.01)])
        assert (found.share, found.low, found.high) == pytest.approx((share, share - 0.02, share + 0.02))
    rows = [(n, 0.2 + 0.8 / n, 0.2 + 0.8 / n, 0.2 + 0.8 / n) for n in (2, 4, 8)]
    assert answers.serial(rows).share == pytest.approx(0.2), "a fit over several numbers of threads"


def test_saturation_says_from_where_on_threads_bring_nothing() -> None:
    seconds = {ONE: 8.0, TWO: 4.2, "threads:4": 4.1}
    run = measured("threads", "product 64³: what?", seconds, [(ONE, TWO), (ONE, "threads:4")])
    sentence = answers.saturation(run)[0]
    assert "2 threads 1.9" in sentence and "saturated from 2 threads on" in sentence
    assert re.search(r"Amdahl.s s \d+ % \[", sentence)
    run = measured("threads", "product 64³: what?", {ONE: 8.0, TWO: 4.2}, [(ONE, TWO)])
    assert "not saturated by 2" in answers.saturation(run)[0]


@pytest.mark.parametrize("counts", [(2, 4, 8), (32, 33), (20, 21)])
def test_threads_that_bring_all_they_can_are_not_saturated(counts: tuple[int, ...]) -> None:
    rows = [(n, 1 / n, 0.99 / n, 1.01 / n) for n in counts]
    assert answers._until(rows).startswith("not saturated by")
    late = [(n, 1 / min(n, 4), 0.99 / min(n, 4), 1.01 / min(n, 4)) for n in (2, 4, 8, 16)]
    assert answers._until(late) == "saturated from 4 threads on"
    assert answers._until([(2, 0.5, 0.5, 0.5), (4, 0.48, 0.48, 0.48), (8, 0.125, 0.125, 0.125)]) == "not saturated by 8"


def test_every_case_of_a_plan_is_repeated_by_its_own_line() -> None:
    repeat = Repeat("cpu", cpu.BENCHMARK.swept)
    assert repeat.line(plan("--clock")[0].cases[1]) == "python -m micro.cpu --clock"
    for question in ("", "--oversubscribe"):
        for contest in plan(question):
            for case in contest.cases[:2]:
                line = repeat.line(case)
                if case.problem.op in ("fma", "mma"):
                    assert contest.name in line and [x.name for x in plan(line.partition("cpu ")[2])] == [contest.name]
                    continue
                (again,) = plan(line.removeprefix("python -m micro.cpu "))
                assert [x.name for x in again.cases] == [case.name]
