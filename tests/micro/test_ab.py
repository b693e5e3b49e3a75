"""`micro.ab` over scripted arms and with real processes: who is asked what, what goes wrong, and the pipe to an arm."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import LaunchError, WrongResult
from micro import ab
from micro.arms import pairs
from micro.arms.pairs import Arm
from micro.planning.contest import parse
from micro.worker.client import Died
from micro.worker.process import POOLS
from reports import store
from reports.record import Note, Run
from tests.conftest import Ran
from tests.processes import MARK, left, python
from tests.simulated.arms import CALLS, NAMES, Script, command, failing, kept, slower


def note(run: Run, topic: str) -> dict[str, Any]:
    (found,) = [x for x in run.notes if isinstance(x, Note) and x.topic == topic]
    return found.data


# Who is asked what


def test_both_arms_are_asked_the_same() -> None:
    """Placements come from the seed; launches from the least of both arms' calls: alike in everything."""
    script = Script()
    assert command(script).code == 0
    for do in ("prepare", "open", "settle", "close"):
        sides = [[(x.pair, x.given) for x in script.asked(do, arm=arm)] for arm in "ab"]
        assert sides[0] == sides[1] and len(sides[0]) == 6 * len(NAMES), do
    least = [min(both) for both in zip(*CALLS.values(), strict=True)]
    assert all(x.given == {"calls": least, "visit": pairs.ACROSS} for x in script.asked("settle"))


def test_every_pair_has_its_own_placements_order_and_canary() -> None:
    """The first is checked."""
    script = Script()
    assert json.loads(command(script, "--json", "-").out)["comparisons"]
    opened = script.asked("open", arm="a")
    assert len({x.given["seed"] for x in opened}) == len(opened) == 6 * len(NAMES)
    assert all((x.given["seed"] is not None) == (x.pair == 0) for x in script.asked("prepare"))
    orders = [tuple(x.given["case"] for x in script.asked("open", arm="a", pair=p)) for p in range(6)]
    assert all(sorted(order) == sorted(NAMES) for order in orders) and len(set(orders)) > 2
    for arm in "ab":
        assert [x.pair for x in script.asked("look", arm=arm) if x.given["canary"]] == list(range(6))


@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, pairs.TURN), (1.0, 1)])
def test_turns_are_taken_in_random_order(seconds: float, rounds: int) -> None:
    """Two turns each at least, in each both arms have the same rounds; long rounds change hands at once."""
    script = Script(round=seconds)
    command(script)
    looks = script.asked("look")
    turns = [looks[i : i + 2] for i in range(0, len(looks), 2)]
    assert len(turns) >= 2 * 6 * len(NAMES)
    for one, other in turns:
        assert {one.arm, other.arm} == {"a", "b"} and one.given == other.given
        assert one.given["rounds"] == rounds
    first = [turn[0].arm for turn in turns]
    assert 0.25 < first.count("a") / len(first) < 0.75
    assert {x.given["first"] for x in looks} >= {0, rounds}


# What is made of it


def test_the_record() -> None:
    ran, run = kept(Script(slower(1.2)), processes=7)
    assert (ran.code, ran.err) == (0, "")
    assert [contest.contest for contest in run.contests] == [f"ab/{name}" for name in NAMES]
    for name, contest in zip(NAMES, run.contests, strict=True):
        (found,) = contest.comparisons
        assert (found.verdict, found.differs, found.scope) == ("slower", "arm", "across 7 processes per arm")
        assert (found.baseline, found.contender) == (f"{name}/arm:a", f"{name}/arm:b")
        assert found.low is not None and found.high is not None and found.low < 1.2 < found.high
        a, b = (one.seconds.median for one in contest.results if one.seconds)
        assert b / a == pytest.approx(1.2, rel=0.01)
        for arm, one in zip("ab", contest.results, strict=True):
            assert parse(one.name).name == name
            assert (one.status, one.clock, one.launches) == ("ok", "cpu", 7)
            assert one.processes == tuple(sorted([*range(7)] * 2)) and one.rounds == (0, 1) * 7
            assert len(one.samples) == 14 and one.kernel == f"kernel of {arm}" and one.error == 1e-7
            assert one.canary == {"fma/isa:avx2": [2e-5] * 7}
    told = note(run, "ab")
    assert (told["processes"], told["margin"], told["gate"]) == (7, 0.01, None)
    assert told["a"]["environment"]["digest"] == "a" and told["b"]["environment"]["digest"] == "b"


@pytest.mark.parametrize(
    ("settled", "clock"), [({"queues": False}, "wall"), ({"queues": True}, "cpu"), ({}, "cpu"), (None, "wall")]
)
def test_where_visits_are_short_or_no_queueing_is_told_the_wall_is_the_clock(
    settled: dict[str, bool] | None, clock: str
) -> None:
    """A checkout from before it was asked does not say."""
    _, run = kept(Script(slower(1.2), visit=1e-5) if settled is None else Script(slower(1.2), settled=settled))
    assert {one.clock for one in run.results} == {clock} and {c.verdict for c in run.comparisons} == {"slower"}
    assert settled is not None or all(one.samples[0] > 8e-6 for one in run.results)


def test_what_differs_between_the_arms_is_said() -> None:
    facts: dict[str, dict[str, Any]] = {"a": {"packages": {"numpy": "1"}}, "b": {"packages": {"numpy": "2"}}}
    ran, run = kept(Script(facts=facts))
    assert "The arms differ in: packages.numpy: 1 → 2." in ran.out
    assert note(run, "ab")["differs"] == ["packages.numpy: 1 → 2"]
    assert "differ in: nothing that is recorded." in kept(Script())[0].out


@pytest.mark.parametrize(
    ("ratio", "spread", "gate", "code"),
    [
        (1.10, 0.002, "5%", 1),  # slower, and by more
        (1.048, 0.006, "5%", 1),  # slower for certain, and perhaps by the gate
        (1.03, 0.002, "5%", 0),  # slower for certain, surely by less
        (1.03, 0.002, "2%", 1),
        (1.0, 0.002, "5%", 0),
        (1.05, 0.2, "5%", 0),  # not known
        (1.10, 0.002, None, 0),  # nobody asked
    ],
)
def test_the_gate(ratio: float, spread: float, gate: str | None, code: int) -> None:
    ran, run = kept(Script(slower(ratio, spread)), *(["--gate", gate] if gate else []), processes=13)
    assert ran.code == code
    assert ("not passed: " in ran.out) == (code == 1)
    assert (": passed." in ran.out) == (gate is not None and code == 0)
    assert code == 0 or all(name in " ".join(ran.out.split()).partition("not passed: ")[2] for name in NAMES)
    if code or ratio == 1.03:
        assert {c.verdict for c in run.comparisons} == {"slower"}


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
        ("prepare", WrongResult("returns zeros"), "wrong"),
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
    error = Died("crashes: its process was killed by SIGSEGV")
    ran, run = kept(Script(slower(1.2), failing(do, error, case=NAMES[1], pair=2)), processes=9)
    assert ran.code == 1
    assert verdicts(run) == {NAMES[0]: "slower", NAMES[1]: "not comparable", NAMES[2]: "slower"}


@pytest.mark.parametrize("do", ["prepare", "open"])
def test_a_crash_does_not_cost_the_cases_after_it(do: str) -> None:
    """Whichever case comes first in the second pair kills its process."""
    script = Script(slower(1.2))
    error = Died("crashes: its process was killed by SIGSEGV")

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
    assert ran.err == "micro.ab: interrupted after 7 of 13 processes per arm\n"
    assert set(verdicts(run).values()) == {"slower"}
    for one in run.results:
        assert sorted(set(one.processes)) == list(range(7)) and len(one.samples) == len(one.processes)
    assert {c.scope for c in run.comparisons} == {"across 7 processes per arm"}
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


@pytest.mark.slow
def test_a_real_run(tmp_path: Path) -> None:
    """Six fresh processes an arm over two kernels; its document is whole and nobody is left behind."""
    path = tmp_path / "run.jsonl"
    words = ["-m", "micro.ab", "--processes", "6", "--budget", "0.5s", "-o", str(path), "--json", "-", "--"]
    words += ["micro.gemm", "--m", "16", "--n", "16", "--k", "16", "--variant", "openblas,naive"]
    ran = python(*words, state=tmp_path / "state", timeout=600, **{MARK: str(tmp_path)})
    assert ran.returncode == 0 and "Traceback" not in ran.stderr, ran.stderr
    told, run = json.loads(ran.stdout), store.read(path)
    assert len(told["comparisons"]) == len(run.comparisons) == 2
    assert [contest.results[0].variant for contest in run.contests] == ["openblas", "naive"]
    for one in run.results:
        assert one.status in ("ok", "contended") and set(one.processes) == set(range(6))
        assert one.seconds is not None and one.seconds.median > 0 and one.error is not None
    assert "The arms differ in: nothing that is recorded." in ran.stderr
    assert f"run file: {path}" in ran.stderr
    assert not left(tmp_path)


# What is refused


@pytest.fixture
def real(capfd: pytest.CaptureFixture[str], own_state: Path, in_process: Callable[..., Ran]) -> Callable[..., Ran]:
    """`real("--processes", "3")`: the driver in this process, with real arms and hardly any time."""
    return lambda *argv: in_process(capfd, ab.main, ["--budget", "1ms", *argv])


BAD = {
    "--": "--",
    "-- gem --m 8": "micro.gemm",
    "-- reports show": "micro.gemm",
    "--processes 3 -- micro.gemm": "--processes 3",
    "--repo-a {folder} -- micro.gemm": "--repo-a {folder}",
    "--repo-b {folder}/missing -- micro.gemm": "--repo-b {folder}/missing",
    "--python-a {folder}/python -- micro.gemm": "--python-a {folder}/python: No such file",
    "--python-b {folder} -- micro.gemm --m 8": "--python-b {folder}: Permission denied",
    "--python-a /bin/true -- micro.gemm": "arm a: ends its process with exit code 0",
    "-- micro.gemm --banana": "arm a: unrecognized arguments: --banana",
    "-- micro.gemm --m 0": "arm a: --m 0",
    "-- micro.banana": "arm a: raises ModuleNotFoundError",
    "-- micro.ab": "arm a: raises AttributeError",
    "--budget 0 -- micro.gemm": "--budget 0",
    "--margin 100% -- micro.gemm": "--margin 100%",
    "--gate 5 -- micro.gemm": "--gate 5",
    "--banana -- micro.gemm": "",
    "--gate": "",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_usage_is_refused_with_one_line(real: Callable[..., Ran], tmp_path: Path, words: str) -> None:
    ran = real(*words.format(folder=tmp_path).split())
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran.err
    assert "micro.ab: " in ran.err and BAD[words].format(folder=tmp_path) in ran.err


# The pipe to an arm. In the place of its Python stands a small one that does what it is told.

STAND_IN = f"""#!{sys.executable} -IS
import json, os, sys

with os.fdopen(int(sys.argv[5])) as requests, os.fdopen(int(sys.argv[6]), "w") as answers:
    for line in requests:
        asked = json.loads(line)
        answer = {{"ok": asked["do"]}}
        exec(asked["code"])
        answers.write(json.dumps(answer) + "\\n")
        answers.flush()
"""


@pytest.fixture
def arm(tmp_path: Path) -> Iterator[Arm]:
    python = tmp_path / "python"
    python.write_text(STAND_IN)
    python.chmod(0o755)
    made = Arm("a", str(python), tmp_path, 2)
    yield made
    made.close()


def does(arm: Arm, code: str, patience: float = 20.0) -> dict[str, Any]:
    return arm.call("it", code=code, patience=patience)


def test_an_arm_runs_its_own_checkout_with_pools_of_its_threads(arm: Arm, tmp_path: Path) -> None:
    told = does(arm, "answer = dict(os.environ)")
    assert told["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path) and told["PYTHONSAFEPATH"] == "1"
    assert {told[name] for name in POOLS} == {"2"}


@pytest.mark.parametrize(
    ("kind", "error"), [("WrongResult", WrongResult), ("LaunchError", LaunchError), ("UsageError", LaunchError)]
)
def test_what_an_arm_raises_is_raised_here(arm: Arm, kind: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^returns zeros$"):
        does(arm, f"answer = {{'error': 'returns zeros', 'kind': {kind!r}}}")
    assert does(arm, "") == {"ok": "it"}
