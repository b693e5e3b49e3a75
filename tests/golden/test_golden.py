"""What a person reads, word by word, of runs on the fake device. `GOLDEN=write` rewrites what is expected."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Ran, unsteered

HERE = Path(__file__).parent
SIZE = ("--m", "64", "--n", "64", "--k", "64")
RUNS = {
    "vary-trans": (*SIZE, "--trans", "nn,nt", "--vary", "trans", "--variant", "openblas"),
    "variants": (*SIZE, "--variant", "openblas,numpy,naive"),
    "verbose": (*SIZE, "--trans", "nt", "--variant", "openblas,transpose-then-nn", "-v"),
    "skipped": (*SIZE, "--beta", "1", "--variant", "openblas,numpy"),
}


@pytest.fixture(autouse=True)
def _one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine: the same ceilings, and every kernel's library here. Without witnesses, whose visits are
    drawn by the system and may be single launches."""
    monkeypatch.setattr("micro.worker.contest.DEAR", 0)
    monkeypatch.setattr("kernels.devices.cpu.instruction_sets", lambda: ("avx", "avx2"))
    monkeypatch.setattr("kernels.libs.openblas.missing", lambda owner: None)
    unsteered(monkeypatch)


def body(text: str) -> str:
    """Without the line about machine and seconds, nor the blanks at the ends of lines."""
    lines = [line.rstrip() for line in text.splitlines()]
    end = next(i for i, line in enumerate(lines) if line.startswith("scripted clock"))
    return "\n".join(lines[:end]) + "\n"


@pytest.mark.parametrize("name", RUNS)
def test_report(gemm: Callable[..., Ran], name: str) -> None:
    ran = gemm(*RUNS[name], "--device", "fake")
    assert ran.code == 0
    path = HERE / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(body(ran.out))
    assert body(ran.out) == path.read_text(), "if this is as it should be: make golden, and read the diff"


def test_every_expected_file_belongs_to_a_run() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == set(RUNS)
