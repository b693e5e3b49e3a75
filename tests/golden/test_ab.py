"""What a person reads, word by word, of `python -m micro.ab` over scripted arms. `GOLDEN=write` rewrites it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from micro.worker.client import Died
from tests.conftest import unsteered
from tests.simulated.arms import NAMES, Script, command, failing, slower

HERE = Path(__file__).parent / "ab"
SECONDS = re.compile(r"\d+\.\d s\b")  # of this process, which no script gives
CRASH = Died("ends its process with exit code -11")
OTHER = {"a": {"packages": {"numpy": "1"}}, "b": {"packages": {"numpy": "2"}}}
RUNS = {  # the arms, further words, the exit code
    "same": (lambda: Script(), (), 0),
    "slower": (lambda: Script(slower(1.2)), ("--gate", "5%"), 1),
    "passed": (lambda: Script(slower(0.9), facts=OTHER), ("--gate", "5%"), 0),
    "failed": (lambda: Script(slower(1.0), failing("prepare", CRASH, case=NAMES[1])), (), 1),
    "unresolved": (lambda: Script(slower(1.01, spread=0.05)), (), 0),
}


@pytest.fixture(autouse=True)
def _one_machine(own_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures of a self-test, no width of a terminal, no variable that steers a library."""
    unsteered(monkeypatch)


@pytest.mark.parametrize("name", RUNS)
def test_report(name: str) -> None:
    script, words, code = RUNS[name]
    ran = command(script(), *words)
    assert ran.code == code, ran.err
    lines = [SECONDS.sub("# s", line.rstrip()) for line in (ran.out + ran.err).splitlines()]
    text = "\n".join(lines) + "\n"
    path = HERE / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text(), "if this is as it should be: make golden, and read the diff"


def test_every_expected_file_belongs_to_a_run() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == set(RUNS)
