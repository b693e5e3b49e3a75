"""Two runs beside each other: when their times may be compared, and the commands that give a verdict."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats as known

from micro import ab
from micro.gemm import BENCHMARK
from micro.planning.options import Options, request
from reports import again, compare, formats
from reports.record import Comparison, Result, Run
from tests import build
from tests.processes import ROOT

CASE = "gemm/m:8/n:8/k:8/variant:openblas/threads:1"
PROBLEM = {"m": 8, "n": 8, "k": 8}
FACTS = {"device": {"model": "x"}, "cores": 2}
ENVIRONMENT = build.environment(facts=FACTS, command="python -m micro.gemm", started="monday")
FIVE = (1.00e-6, 1.01e-6, 0.99e-6, 1.005e-6, 0.995e-6)  # seconds of five processes, ±1 %


def result(seconds: Sequence[float], name: str = CASE, contest: str = "c", **more: Any) -> Result:
    """A case with three samples from each process, around the process's own time, one of them far off."""
    samples = [x * wobble for i, x in enumerate(seconds) for wobble in (0.98, 1.0, 1.5 + i % 2)]
    fields = {
        "contest": contest,
        "problem": PROBLEM,
        "seconds": build.spread(float(np.median(samples))) if samples else None,
        "samples": tuple(samples),
        "processes": tuple(p for p in range(len(seconds)) for _ in range(3)),
        "canary": {"fma/isa:avx2": [2e-5, 2e-5, 9e-5]},
    }
    return build.result(name, **fields | more)


def run(*results: Result, **facts: Any) -> Run:
    environment = replace(ENVIRONMENT, facts=ENVIRONMENT.facts | facts)
    names = dict.fromkeys(one.contest for one in results)
    contests = (build.contest(*(one for one in results if one.contest == name)) for name in names)
    return build.run(*contests, environment=environment)


def slower(share: float) -> tuple[float, ...]:
    return tuple(seconds * (1 + share) for seconds in FIVE)


def compared(first: Result, second: Result, margin: float = compare.MARGIN) -> Comparison:
    (found,) = compare.runs(run(first), run(second), margin).comparisons
    return found


def said(both: Run) -> str:
    return " ".join(both.notes[0].data["sentences"])


# Where they ran


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ({}, {}, ()),
        ({"cores": 2}, {"cores": 4}, ("cores: 2 → 4",)),
        ({"packages": {"numpy": "1", "torch": None}}, {"packages": {"numpy": "2"}}, ("packages.numpy: 1 → 2",)),
        ({"device": {"isa": ("avx", "avx2")}}, {"device": {"isa": ["avx", "avx2"]}}, ()),
        ({"device": {"isa": ["avx"]}}, {}, ("device.isa: ['avx'] → none",)),
        ({"variables": {}}, {"variables": {"OMP_NUM_THREADS": "1"}}, ("variables.OMP_NUM_THREADS: none → 1",)),
        ({"z": 1, "a": 1}, {"new": 1, "a": 2, "z": 2}, ("z: 1 → 2", "a: 1 → 2", "new: none → 1")),
    ],
)
def test_what_differs_between_two_environments(first: Any, second: Any, told: tuple[str, ...]) -> None:
    """Nested facts by their path, missing ones as none, in the order of the first and then of the second."""
    one, other = (build.environment(facts=facts) for facts in (first, second))
    assert compare.environments(one, other) == told


def test_what_differs_is_said_before_any_time() -> None:
    told = said(compare.runs(run(result(FIVE)), run(result(FIVE), cores=4, packages={"numpy": "2"})))
    assert "Differences between them: cores: 2 → 4; packages.numpy: none → 2." in told
    assert "a: python -m micro.gemm (monday)" in told
    told = said(compare.runs(run(result(FIVE)), run(result(FIVE))))
    assert "Differences between them: none recorded." in told


# When two results have a verdict


@pytest.mark.parametrize(("first", "second"), [(1, 1), (4, 5), (5, 4), (0, 0)])
def test_runs_measured_apart_have_a_ratio_and_no_verdict(first: int, second: int) -> None:
    one, other = result(FIVE[:first] or [1e-6]), result(slower(0.5)[:second] or [1.5e-6])
    if not first:  # a run of one process numbers none
        one, other = replace(one, processes=()), replace(other, processes=())
    found = compared(one, other)
    assert (found.verdict, found.low, found.high) == ("not comparable", None, None)
    assert found.ratio == pytest.approx(1.5, rel=0.02)
    assert found.reason is not None and "measured separately" in found.reason and "micro.ab" in found.reason


def test_a_process_whose_rounds_were_all_rejected_does_not_count() -> None:
    """Four are left of it."""
    one, other = result(FIVE), result(slower(0.1))
    rounds = tuple(range(len(other.samples)))
    assert compared(replace(one, rounds=rounds), replace(other, rounds=rounds)).verdict == "slower"
    told = compared(replace(one, rounds=rounds), replace(other, rounds=rounds, rejected=(0, 1, 2)))
    assert told.verdict == "not comparable"
    assert told.reason == f"{compare.APART}; a verdict requires 5 processes of each, these have 5 and 4"


def test_five_processes_each_have_a_verdict_with_the_spread_between_them() -> None:
    found = compared(result(FIVE), result(slower(0.5)))
    log = [np.log(x) for x in (FIVE, slower(0.5))]  # of the median of each process, whatever its outliers
    interval = known.ttest_ind(log[1], log[0], equal_var=False).confidence_interval(0.95)
    assert (found.verdict, found.scope) == ("slower", "between runs")
    assert found.low == pytest.approx(math.exp(interval.low))
    assert found.high == pytest.approx(math.exp(interval.high))


@pytest.mark.parametrize(
    ("share", "margin", "verdict"),
    [(0.0, 0.01, "unresolved"), (-0.3, 0.01, "faster"), (0.3, 0.01, "slower"), (0.001, 0.1, "same")],
)
def test_verdicts_between_runs(share: float, margin: float, verdict: str) -> None:
    assert compared(result(FIVE), result(slower(share)), margin).verdict == verdict


@pytest.mark.parametrize(("factor", "comparable"), [(1.019, True), (1.021, False), (0.981, True), (0.979, False)])
def test_canaries_must_lie_within_two_per_cent(factor: float, comparable: bool) -> None:
    """Their medians: one slow look is no slow host."""
    other = {"fma/isa:avx2": [2e-5 * factor, 2e-5 * factor, 9e-4]}
    found = compared(result(FIVE), result(slower(0.5), canary=other))
    assert (found.verdict == "slower") is comparable
    if not comparable:
        assert found.reason is not None and f"{factor - 1:+.1%} (fma/isa:avx2)" in found.reason
        assert found.ratio == pytest.approx(1.5)
    for canary in (None, {"fma/isa:avx512": [1e-5]}):  # without a common one
        assert compared(result(FIVE), result(slower(0.5), canary=canary)).verdict == "not comparable"


READS = [f"stream/kind:read/size:{size << 20}" for size in (4, 128)]


@pytest.mark.parametrize(
    ("footprint", "cold", "slow", "verdict"),
    [
        (48 << 10, (), READS[1], "slower"),
        (48 << 10, (), READS[0], "not comparable"),
        (48 << 10, ("a",), READS[1], "not comparable"),
        (4 << 20, (), READS[1], "slower"),
        (1 << 30, (), READS[1], "not comparable"),
        (None, (), READS[1], "not comparable"),
    ],
)
def test_canaries_beyond_the_working_set_refuse_nothing(
    footprint: int | None, cold: tuple[str, ...], slow: str, verdict: str
) -> None:
    """A read of main memory says nothing of operands that lie in a cache."""
    both = [{name: [1e-3] for name in READS} | extra for extra in ({}, {slow: [1.05e-3]})]
    first, second = (
        result(seconds, canary=canary, footprint=footprint, cold=cold)
        for seconds, canary in zip((FIVE, slower(0.5)), both, strict=True)
    )
    assert compared(first, second).verdict == verdict
    sentences = said(compare.runs(run(first), run(second)))
    assert ("the hosts differed in speed: a read of" in sentences) is (verdict == "not comparable")
    assert "--replicate" not in sentences


def test_many_comparisons_share_the_error_of_their_verdicts() -> None:
    """What is slower alone is not so certain any more as one of fifty."""
    share = next(
        s for s in np.arange(0.01, 0.1, 0.001) if compared(result(FIVE), result(slower(s))).verdict == "slower"
    )
    names = [f"gemm/m:{m}/n:8/k:8/variant:openblas/threads:1" for m in range(50)]
    first, second = (run(*(result(x, name) for name in names)) for x in (FIVE, slower(share)))
    found = compare.runs(first, second).comparisons
    assert {one.verdict for one in found} == {"unresolved"}
    assert found[0].low == pytest.approx(compared(result(FIVE), result(slower(share))).low)


@pytest.mark.parametrize("status", ["wrong", "failed", "skipped"])
def test_a_result_without_times_is_not_compared_and_told(status: str) -> None:
    bad = result((), status=status, reason="returns zeros")
    for pair in ((result(FIVE), bad), (bad, result(FIVE)), (bad, bad)):
        found = compared(*pair)
        assert (found.verdict, found.ratio, found.reason) == ("not comparable", None, f"{status}: returns zeros")
    assert "None" not in (compared(result(FIVE), result((), status="planned")).reason or "")


def test_cases_in_one_run_only_are_counted() -> None:
    shared, first, second = (CASE.replace("m:8", f"m:{m}") for m in (8, 16, 24))
    ceiling = replace(result(FIVE, "fma/isa:avx2"), role="ceiling")
    both = compare.runs(
        run(result(FIVE, shared), result(FIVE, first), ceiling), run(result(FIVE, shared), result(FIVE, second))
    )
    assert [c.baseline for c in both.comparisons] == [f"{shared}/run:a"]
    assert "2 cases are in only one of the runs." in said(both)
    assert "only one of the runs" not in said(compare.runs(run(result(FIVE)), run(result(FIVE))))


CASES = "--m 64,128 --n 64 --variant openblas,naive"
COMMAND = f"python -m micro.gemm {CASES}"
NOT_THOSE = "-o x.jsonl --resume --budget=4s --csv - --json=x.json --replicate 2 --figures pictures -q --target 2%"


def of(command: str, repeat: str = f"{COMMAND} --threads 1") -> Run:
    made = run(result([1e-6], repeat=repeat))
    return replace(made, environment=replace(made.environment, command=command))


FEW = again.Refusal("processes", "", (1, 1))


def asked(command: str) -> Options:
    _, options = request(BENCHMARK, "gemm", shlex.split(command.removeprefix("python -m micro.gemm")))
    return options


def test_both_ways_are_typed_and_understood() -> None:
    why, turns = again.sentences(of(f"{COMMAND} {NOT_THOSE}"), of(f"{COMMAND} --budget=4s -v --target 2%"), [FEW], 5)
    (command,) = re.findall(r"where a ran: (.+?); where b ran: the same, -o b5.jsonl", why)
    options = asked(command)
    assert (options.axes, options.variant) == ({"m": "64,128", "n": "64"}, "openblas,naive")
    typed = (options.replicate, str(options.outputs.output), options.budget, options.target)
    assert typed == ("5", "a5.jsonl", "4s", "2%")
    assert {f"--{kind}" for kind in formats.documents()} == set(again.DOCUMENTS)
    assert not (options.outputs.resume or options.outputs.quiet or options.outputs.figures or options.outputs.documents)
    words = turns.partition("python -m micro.ab ")[2].replace("OLD", str(ROOT)).replace("NEW", str(ROOT))
    duel = ab.unpacked(vars(ab.parser().parse_args(shlex.split(words))))
    assert duel.words == ("micro.gemm", *shlex.split(CASES))


@pytest.mark.parametrize("command", ["from Python: interactive", "python -m micro all", "python -m micro.ceiling"])
def test_of_what_is_no_benchmark_no_command_is_made_up(command: str) -> None:
    repeat = "python -m micro.ceiling" if command.endswith("ceiling") else f"{COMMAND} --threads 1"
    why = " ".join(again.sentences(of(command, repeat), of(COMMAND), [FEW], 5))
    assert "--replicate 5" in why and "python -m micro.ab" in why and command not in why


def test_only_the_run_with_too_few_processes_is_repeated() -> None:
    (why, _) = again.sentences(of(COMMAND), of(COMMAND), [again.Refusal("processes", "", (5, 1)), None], 5)
    assert why.startswith("No verdict for 1 of 2 cases: ") and "a has 5, b has 1" in why
    assert f"where b ran: {COMMAND} --replicate 5 -o b5.jsonl" in why and "where a ran" not in why


def test_a_host_that_differs_is_named_and_no_replicates_asked() -> None:
    slow = [again.Refusal("host", "", host=("stream/kind:read/size:134217728", share)) for share in (-0.08, 0.042)]
    (why, turns) = again.sentences(of(COMMAND), of(COMMAND), slow, 5)
    assert "a read of 128 MiB took 8.0% less where b ran (2% is the limit)" in why
    assert "--replicate" not in why + turns and "python -m micro.ab --repo-a OLD" in turns


@pytest.mark.parametrize(("kind", "words"), [("rejected", "quiet machine"), ("canary", "no canary in common")])
def test_each_reason_has_its_sentence(kind: again.Kind, words: str) -> None:
    (first, second, _) = again.sentences(of(COMMAND), of(COMMAND), [again.Refusal(kind, "", (4, 5)), FEW], 5)
    assert first.startswith("No verdict for 1 of 2 cases: ") and words in first and "--replicate" not in first
    assert "--replicate 5" in second


def test_run_of_the_installed_command_is_repeated_by_it() -> None:
    installed = f"kernelgap gemm {CASES}"
    why, turns = again.sentences(of(installed, f"{installed} --threads 1"), of(COMMAND), [FEW], 5)
    assert f"where a ran: {installed} --replicate 5 -o a5.jsonl; where b ran: {COMMAND} --replicate 5" in why
    assert turns.endswith(f"-- micro.gemm {CASES}")
    other = COMMAND.replace("openblas,naive", "numpy")
    why, _ = again.sentences(of(COMMAND), of(other), [FEW], 7)
    assert f"where a ran: {COMMAND} --replicate 7 -o a7.jsonl; where b ran: {other} --replicate 7 -o b7.jsonl." in why
    both, five = (of(COMMAND), of(COMMAND)), (run(result([1e-6] * 5)),) * 2
    for runs, is_told in ((both, True), (five, False)):
        assert ("--replicate 5 -o a5.jsonl" in said(compare.runs(*runs))) == is_told
