"""What goes wrong in `micro.ab`: kernels, cases of one arm alone, an interrupt; each costs itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernels.errors import LaunchError, WrongResult
from micro.worker.client import Died
from reports.record import Run
from tests.simulated.arms import NAMES, Script, command, failing, kept, slower

OTHER = "gemm/m:99/n:8/k:8/variant:openblas/threads:1"


def refused(ran: Any) -> None:
    """Exit code 2 and one line for the person."""
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran.err
    assert ran.err.startswith("micro.ab: ")


def verdicts(run: Run) -> dict[str, str]:
    return {c.contest.removeprefix("ab/"): c.verdict for c in run.comparisons}


# A case that fails


@pytest.mark.parametrize("arm", ["a", "b"])
@pytest.mark.parametrize("pair", [0, 3])
@pytest.mark.parametrize(
    ("do", "error", "status"),
    [
        ("prepare", WrongResult("answers zeros"), "wrong"),
        ("prepare", LaunchError("raises ValueError: no"), "failed"),
        ("open", LaunchError("raises ValueError: no"), "failed"),
    ],
)
def test_a_case_that_fails_costs_itself(arm: str, pair: int, do: str, error: Exception, status: str) -> None:
    ran, run = kept(Script(slower(1.2), failing(do, error, arm=arm, case=NAMES[1], pair=pair)))
    assert ran.code == 1
    assert verdicts(run) == {NAMES[0]: "slower", NAMES[1]: "not comparable", NAMES[2]: "slower"}
    (bad,) = run.contests[1].comparisons
    assert (bad.reason, bad.ratio) == (f"arm {arm}: {error}", None)
    told = {one.name[-1]: (one.status, one.reason) for one in run.contests[1].results}
    other = "ba"["ab".index(arm)]
    assert told == {arm: (status, str(error)), other: ("skipped", "the other arm failed")}
    assert "2 slower, 1 not comparable" in ran.out


def test_a_failed_case_does_not_trip_the_gate() -> None:
    """Though it was slower in all the pairs before."""
    fails = failing("open", LaunchError("raises ValueError: no"), case=NAMES[1], pair=8)
    ran = command(Script(lambda name, pair: 1.5 if name == NAMES[1] else 1.0, fails), "--gate", "5%", processes=9)
    assert ran.code == 1  # a failed kernel, not the gate
    assert "Gate 5 %: passed." in ran.out


@pytest.mark.parametrize("do", ["settle", "look"])
def test_a_case_that_fails_while_it_is_timed_costs_itself(do: str) -> None:
    error = Died("crashes: its process died of SIGSEGV")
    ran, run = kept(Script(slower(1.2), failing(do, error, case=NAMES[1], pair=2)), processes=9)
    assert ran.code == 1
    assert verdicts(run) == {NAMES[0]: "slower", NAMES[1]: "not comparable", NAMES[2]: "slower"}


@pytest.mark.parametrize("do", ["prepare", "open"])
def test_a_crash_does_not_cost_the_cases_after_it(do: str) -> None:
    """Whichever case comes first in the second pair kills its process."""
    script = Script(slower(1.2))
    error = Died("crashes: its process died of SIGSEGV")

    def fails(asked: Any) -> None:
        if (asked.arm, asked.pair, asked.do) == ("b", 1, do) and len(script.asked(do, arm="b", pair=1)) == 1:
            raise error

    script.fails = fails
    _, run = kept(script, processes=9)
    assert sorted(verdicts(run).values()) == ["not comparable", "slower", "slower"]


# Cases of one arm alone


def test_cases_that_only_one_arm_has_are_told() -> None:
    script = Script()
    script.cases["a"] = {**script.cases["a"], OTHER: None}
    script.cases["b"] = {**script.cases["b"], NAMES[2]: "mkl is not here"}
    ran, run = kept(script)
    assert ran.code == 0
    assert list(verdicts(run)) == list(NAMES[:2])
    told = next(x for x in run.notes if x.topic == "ab").data["only"]
    assert told == [f"{NAMES[2]}: skipped in arm b: mkl is not here", f"{OTHER}: not in arm b"]
    for sentence in told:
        assert sentence in " ".join(ran.out.split())


def test_arms_without_a_common_case_are_refused() -> None:
    for skip in (None, "mkl is not here"):
        cases: dict[str, dict[str, str | None]] = {"a": {OTHER: skip}, "b": {NAMES[0]: None}}
        ran = command(Script(cases=cases))
        refused(ran)
        assert "no case that both arms can measure" in ran.err and f"{OTHER}: not in arm b" in ran.err
    refused(command(Script(cases={"a": {}, "b": {}})))
    two = NAMES[0].replace("threads:1", "threads:2")
    ran = command(Script(cases={arm: {NAMES[0]: None, two: None} for arm in "ab"}))
    refused(ran)
    assert "--threads" in ran.err


@pytest.mark.parametrize("arm", ["a", "b"])
def test_an_arm_that_cannot_plan_is_refused_by_name(arm: str) -> None:
    ran = command(Script(fails=failing("plan", LaunchError("unrecognized arguments: --x"), arm=arm)))
    refused(ran)
    assert ran.err == f"micro.ab: arm {arm}: unrecognized arguments: --x\n"


# An interrupt


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
@pytest.mark.parametrize("do", ["prepare", "look", "close"])
def test_an_interrupt_leaves_what_the_finished_pairs_say(stop: Any, code: int, do: str) -> None:
    """In the seventh pair, at whichever case."""
    ran, run = kept(Script(slower(1.2), failing(do, stop, pair=7, case=NAMES[1])), "--gate", "5%", processes=13)
    assert ran.code == code
    assert ran.err == "micro.ab: interrupted after 7 of 13 processes an arm\n"
    assert set(verdicts(run).values()) == {"slower"}
    for one in run.results:
        assert sorted(set(one.processes)) == list(range(7)) and len(one.samples) == len(one.processes)
    assert {c.scope for c in run.comparisons} == {"across 7 processes an arm"}
    assert "3 slower" in ran.out


@pytest.mark.parametrize("pair", [0, 3])
def test_an_interrupt_before_six_pairs_leaves_no_verdict(pair: int) -> None:
    ran, run = kept(Script(slower(1.2), failing("look", KeyboardInterrupt(), pair=pair)), "--gate", "5%")
    assert ran.code == 130
    assert set(verdicts(run).values()) == {"unresolved"}
    assert {one.status for one in run.results} == ({"ok"} if pair else {"skipped"})
    assert all(one.reason == "interrupted" for one in run.results if not pair)
    assert {c.reason for c in run.comparisons} == {f"{pair} processes, an interval needs 6"} or not pair


# Where the answer goes


def test_files_that_cannot_be_written_are_refused_before_anything_is_measured(tmp_path: Path) -> None:
    script, there = Script(), tmp_path / "there.jsonl"
    there.write_text("something\n")
    missing = str(tmp_path / "missing" / "x")
    for words in (("-o", missing), ("-o", str(there)), ("--json", missing), ("--gate", "")):
        refused(command(script, *words))
    assert not script.asked("prepare") and there.read_text() == "something\n"
