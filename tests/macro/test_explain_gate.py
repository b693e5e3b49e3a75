"""`macro explain old.py new.py --gate 5%`: what it accepts, how many processes it starts, its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import LaunchError, UsageError
from macro import explain
from macro.running import script, script_request
from macro.watching import perf, plain
from macro.watching.plain import Pair
from macro.watching.recording import Recording
from tests.macro.test_explain_script import MARKED, ROOT, marked


@pytest.fixture
def scripts(tmp_path: Path) -> list[str]:
    paths = [tmp_path / name for name in ("old.py", "new.py")]
    for path in paths:
        path.touch()
    return list(map(str, paths))


BAD = {
    "old.py --gate 5%": "--gate 5%: compares two scripts, old.py new.py, or two modules",
    "old.py --gate 5% --heap default,keep": "--gate 5%: compares two scripts, old.py new.py, or two modules",
    "-m train --gate 5%": "--gate 5%: compares two scripts, old.py new.py, or two modules",
    "old.py new.py third.py --gate 5%": "third.py: --gate 5% compares two scripts",
    "fcn-r numpy pytorch --gate 5%": "fcn-r: --gate 5% compares two scripts",
    "old.py new.py third.py": "third.py: give one or two scripts; their arguments follow --: old.py -- new.py third.py",
    "old.py new.py --gate 0%": "--gate 0%: must be a positive number",
    "old.py new.py --gate abc": "--gate abc: must be a positive number",
    "old.py new.py --gate 100%": "--gate 100%: must be a positive number",
    "old.py new.py --gate 5% --resume": "--resume: a script's steps cannot be resumed; leave it out",
    "old.kg new.kg --gate 5%": "--gate 5%: recordings ran apart; name the two scripts",
    "old.py new.py --gate 5% --runs 5": "--runs 5: --gate 5% needs 6 or more processes of each; leave --runs out",
    "old.py new.py --gate 5% --stop never": "--stop never: --gate 5% starts each script several times",
}


@pytest.mark.parametrize("words", BAD)
def test_a_bad_gate_is_one_line(words: str, scripts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(scripts[0]).parent)
    with pytest.raises(UsageError) as refused:
        script_request.request(words.split())
    assert str(refused.value).startswith(BAD[words]) and "\n" not in str(refused.value)


def test_networks_have_no_gate() -> None:
    with pytest.raises(UsageError, match="fcn-r: --gate 5% compares two scripts"):
        explain.main(["fcn-r", "numpy", "pytorch", "--gate", "5%"])


def test_the_budget_is_shared_by_all_processes(scripts: list[str]) -> None:
    asked = script_request.request([*scripts, "--gate", "5%", "--budget", "24s"])
    assert asked.gate is not None and (asked.gate.share, asked.gate.pairs, asked.runs) == (0.05, 6, 1)
    assert [x.seconds for x in asked.scripts] == [12.0, 12.0] and asked.gate.seconds == 2.0
    assert script_request.request([*scripts, "--runs", "3"]).runs == 3 and script_request.request(scripts).runs == 1
    more = script_request.request([*scripts, "--gate", "5%", "--runs", "12"])
    assert more.gate is not None and (more.gate.pairs, more.runs) == (12, 1)


Run = Callable[..., Pair]
FINE = Pair(([1.0, 1.1] * 6, [1.0, 1.1] * 6))


def gated(words: list[str], run: Run, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> Any:
    """Return the gate and the exit code of pairs that `run(number)` makes."""
    monkeypatch.setattr(plain, "run", lambda scripts, seconds, number: run(number))
    facts = [Recording({"script": path}) for path in words]
    return script._gate(script_request.request([*words, "--gate", "5%"]), facts, code, lambda text: None)


def test_six_pairs_of_processes_make_a_verdict(scripts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []

    def run(number: int) -> Pair:
        numbers.append(number)
        return FINE

    outcome, code = gated(scripts, run, monkeypatch)
    assert numbers == list(range(6)) and (outcome.outcome, code) == ("passed", 0)
    outcome, code = gated(scripts, run, monkeypatch, code=130)
    assert len(numbers) == 6 and (outcome.outcome, code) == ("no verdict", 130), "interrupted: nothing more is started"


@pytest.mark.parametrize(
    ("end", "code", "reason"),
    [(KeyboardInterrupt(), 130, "interrupted: 3 of 6"), (LaunchError("new.py: crashed"), 0, "new.py: crashed: 3 of 6")],
)
def test_what_ends_the_pairs_leaves_no_verdict(
    end: BaseException, code: int, reason: str, scripts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(number: int) -> Pair:
        if number == 3:
            raise end
        return FINE

    outcome, stopped = gated(scripts, run, monkeypatch)
    assert (outcome.outcome, stopped) == ("no verdict", code) and reason in outcome.sentence


@pytest.mark.slow
def test_a_real_gate(tmp_path: Path) -> None:
    """Seven processes of each of two equal scripts; the sentence comes first, and the exit code is its outcome's."""
    if perf.missing():
        pytest.skip("no perf")
    for folder in ("full", "parts"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(MARKED)
    words = [str(tmp_path / folder / "train.py") for folder in ("full", "parts")]
    out = [tmp_path / "run.json", tmp_path / "run.md"]
    more = ["--gate", "90%", "--budget", "4s", "-q", "--json", str(out[0]), "--markdown", str(out[1])]
    command = [sys.executable, "-m", "macro", "explain", *words, *more]
    ran = subprocess.run(command, cwd=ROOT, env=marked(tmp_path), capture_output=True, text=True, timeout=600)
    document = json.loads(out[0].read_text())
    assert document["gate"]["sentence"].startswith(("Gate 90%: passed: parts/train.py takes ", "Gate 90%: no verdict"))
    assert ran.returncode == {"passed": 0, "no verdict": 2}[document["gate"]["outcome"]], ran.stderr
    assert out[1].read_text().startswith(f"**{document['gate']['sentence']}**")
    assert ran.stdout.startswith("Gate 90%: ") and "kind of work" not in ran.stdout
