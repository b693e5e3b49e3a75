"""`micro.ab` with real processes: one run, what is refused with one line, and the pipe to an arm."""

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
from micro.arms.pairs import Arm
from micro.worker.process import POOLS
from reports import store
from tests.conftest import Ran
from tests.processes import MARK, left, python


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
    assert "Between the arms differ: nothing that is recorded." in ran.stderr
    assert f"run file: {path}" in ran.stderr
    assert not left(tmp_path)


# What is refused


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], own_state: Path, in_process: Callable[..., Ran]) -> Callable[..., Ran]:
    """`command("--processes", "3")`: the driver in this process, with real arms and hardly any time."""
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
def test_bad_usage_is_refused_with_one_line(command: Callable[..., Ran], tmp_path: Path, words: str) -> None:
    ran = command(*words.format(folder=tmp_path).split())
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
    with pytest.raises(error, match=r"^answers zeros$"):
        does(arm, f"answer = {{'error': 'answers zeros', 'kind': {kind!r}}}")
    assert does(arm, "") == {"ok": "it"}
