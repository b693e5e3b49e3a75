"""Printed text of runs on the fake device, of `ab` over scripted arms and of kept runs.

`GOLDEN=write` rewrites what is expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from micro.worker.client import Died
from reports import store
from reports.__main__ import main
from reports.record import Run
from tests.conftest import Ran, unsteered
from tests.golden.sections import compare, sections
from tests.simulated.arms import NAMES, Script, command, failing, slower

HERE = Path(__file__).parent
SIZE = ("--m", "64", "--n", "64", "--k", "64")
RUNS = {
    "vary-trans": (*SIZE, "--trans", "nn,nt", "--vary", "trans", "--variant", "openblas"),
    "variants": (*SIZE, "--variant", "openblas,numpy,naive"),
    "verbose": (*SIZE, "--trans", "nt", "--variant", "openblas,transpose-then-nn", "-v"),
    "skipped": (*SIZE, "--beta", "1", "--variant", "openblas,numpy"),
}
SECONDS = re.compile(r"\d+\.\d s\b")  # of this process, which no script gives
CRASH = Died("ends its process with exit code -11")
OTHER = {"a": {"packages": {"numpy": "1"}}, "b": {"packages": {"numpy": "2"}}}
ARMS = {  # the arms, further words, the exit code
    "same": (lambda: Script(), (), 0),
    "slower": (lambda: Script(slower(1.2)), ("--gate", "5%"), 1),
    "passed": (lambda: Script(slower(0.9), facts=OTHER), ("--gate", "5%"), 0),
    "failed": (lambda: Script(slower(1.0), failing("prepare", CRASH, case=NAMES[1])), (), 1),
    "unresolved": (lambda: Script(slower(1.01, spread=0.05)), (), 0),
}
KEPT = HERE.parents[1] / "reports/reference/macro"
SHOWN = {
    "explain": KEPT / "explain-fcn-s.jsonl",
    "whatif": KEPT / "whatif/fcn-s-pytorch.jsonl",
    "advise": KEPT / "whatif/fcn-r-advise.jsonl",
}


@pytest.fixture(autouse=True)
def _one_machine(own_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same ceilings and libraries on every machine, no figures of a self-test, no width of a terminal.

    Without witnesses, whose visits are drawn by the system and may be single launches."""
    monkeypatch.setattr("micro.worker.contest.DEAR", 0)
    monkeypatch.setattr("kernels.devices.cpu.instruction_sets", lambda: ("avx", "avx2"))
    monkeypatch.setattr("kernels.libs.openblas.missing", lambda owner: None)
    unsteered(monkeypatch)


def stripped(text: str) -> list[str]:
    """Return the lines of a text without the blanks at their ends."""
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("name", RUNS)
def test_run_is_reported_as_before(gemm: Callable[..., Ran], name: str) -> None:
    ran = gemm(*RUNS[name], "--device", "fake")
    assert ran.code == 0
    lines = stripped(ran.out)
    end = next(i for i, line in enumerate(lines) if line.startswith("scripted clock"))  # machine and seconds
    compare(HERE / "runs.txt", name, "\n".join(lines[:end]) + "\n")


@pytest.mark.parametrize("name", ARMS)
def test_arms_are_reported_as_before(name: str) -> None:
    script, words, code = ARMS[name]
    ran = command(script(), *words)
    assert ran.code == code, ran.err
    compare(HERE / "ab.txt", name, SECONDS.sub("# s", "\n".join(stripped(ran.out + ran.err))) + "\n")


def numbers(*values: Any) -> str:
    """Return numbers to five digits, `-` for None."""
    return " ".join("-" if x is None else f"{x:.5g}" for x in values)


def figures(run: Run) -> Iterator[str]:
    """Yield a line for every prediction, comparison and cell, in the order of the run."""
    for prediction in run.predictions:
        spans = [(x and (x.seconds, x.low, x.high)) or (None,) for x in (prediction.predicted, prediction.measured)]
        yield f"{prediction.change}: {numbers(*spans[0])} | {numbers(*spans[1])} | {prediction.verdict}"
    for contest in run.contests:
        for x in contest.comparisons:
            yield f"{x.contender} / {x.baseline}: {x.verdict} {numbers(x.ratio, x.low, x.high)}"
    for note in run.notes:
        for cell in note.data.get("cells", ()):
            values = [cell.get(key) for key in ("a", "b", "low", "high")]
            yield f"{cell['row']} {cell['phase']} {cell['column']}: {numbers(*values)}"


@pytest.mark.parametrize("name", SHOWN)
def test_kept_run_is_reported_as_before(
    name: str, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    ran = in_process(capsys, main, ["show", str(SHOWN[name])])
    assert ran.code == 0, ran.err
    for kind, lines in (("figures", [*figures(store.read(SHOWN[name]))]), ("text", stripped(ran.out))):
        compare(HERE / "shown.txt", f"{name}, {kind}", "\n".join(lines) + "\n")


def test_every_expected_section_belongs_to_a_run() -> None:
    shown = {f"{name}, {kind}" for name in SHOWN for kind in ("figures", "text")}
    for file, titles in (("runs", {*RUNS}), ("ab", {*ARMS}), ("shown", shown)):
        assert sections(HERE / f"{file}.txt").keys() == titles
