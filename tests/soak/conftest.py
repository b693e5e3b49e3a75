"""A stand-in for `python -m macro`: it takes no time, and writes the run file that it is asked for."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from kernels import suite
from reports.record import Contest, Note, Prediction
from reports.store import RunFile
from tests import build
from tests.macro.agent.conftest import beside as beside
from tests.soak import kept

Record: TypeAlias = "Contest | Note | Prediction"
# From a run file's stem and whether it is to be resumed: what a command writes, or its exit code and what it writes.
Answer: TypeAlias = "Callable[[str, bool], Sequence[Record] | tuple[int, Sequence[Record]]]"
Macro: TypeAlias = "Callable[[Answer], list[str]]"


def write(path: Path, words: Sequence[str], records: Sequence[Record] = ()) -> None:
    """Write the run file of `python -m macro WORDS -o PATH`."""
    path.unlink(missing_ok=True)
    file = RunFile(path, build.environment(command=suite.typed("macro", *words, "-o", str(path))))
    for record in records:
        file.append(record)
    file.close()


@pytest.fixture
def macro(monkeypatch: pytest.MonkeyPatch, own_state: Path) -> Macro:
    """`macro(answer)`: the stems of the run files that are asked for from now on."""
    real = subprocess.run

    def simulated(answer: Answer) -> list[str]:
        stems: list[str] = []

        def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
            if words[:4] != suite.child("macro"):
                return real(words, **options)
            again = words[-1] == "--resume"
            path = Path(words[words.index("-o") + 1])
            stems.append(path.stem)
            reply = answer(path.stem, again)
            code, records = reply if isinstance(reply, tuple) else (0, reply)
            if code != kept.MISSING:
                write(path, words[4 : words.index("-o")], records)
            why = "the file's run was made in another environment" if again else "it is not here"
            return subprocess.CompletedProcess(words, code, stderr=f"starting it\nmacro: {why}\n")

        monkeypatch.setattr(kept.subprocess, "run", run)
        return stems

    return simulated
