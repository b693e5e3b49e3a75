"""`--gate` of a benchmark: what it refuses, what it measures, and its exit code, on the fake device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from micro.command.line import main
from micro.gemm import BENCHMARK
from micro.planning.options import request
from micro.planning.request import GATED, planned
from reports import store
from tests.conftest import Ran

SMALL = ["--m", "16", "--n", "16", "--k", "16", "--device", "fake", "-q", "--budget", "1s"]
BAD = {
    "": "compares two variants; name both: --variant mine.py:old,mine.py:new",
    "--variant openblas": "compares two variants; name both",
    "--variant openblas,naive --m 8,16 --vary m": "no contest compares naive with openblas; leave --vary out",
    "--variant openblas,naive --transpose": "no contest compares naive with openblas; leave the question out",
    "--variant openblas,naive --until check": "--until times nothing; leave one of the two out",
}


@pytest.fixture
def ran(capfd: pytest.CaptureFixture[str], own_state: Path, in_process: Callable[..., Ran]) -> Callable[..., Ran]:
    return lambda *words: in_process(capfd, main, BENCHMARK, "gemm", list(words))


@pytest.mark.parametrize("words", BAD)
def test_a_gate_needs_two_variants_in_a_contest(ran: Callable[..., Ran], words: str) -> None:
    refused = ran(*words.split(), "--gate", "5%", "--device", "fake")
    assert refused.code == 2 and len(refused.err.splitlines()) == 1
    assert f"micro.gemm: --gate 5%: {BAD[words]}" in refused.err


@pytest.mark.parametrize("share", ["0%", "abc", "100%", "5"])
def test_a_bad_share_is_refused(ran: Callable[..., Ran], share: str) -> None:
    refused = ran(*SMALL, "--variant", "openblas,naive", "--gate", share)
    assert (refused.code, refused.out) == (2, "") and f"--gate {share}: must be a positive number" in refused.err


def test_a_gate_measures_in_several_processes() -> None:
    for more, count in (([], GATED), (["--replicate", "3"], 3)):
        meant, options = request(BENCHMARK, "gemm", [*SMALL, "--variant", "openblas,naive", "--gate", "5%", *more])
        plan = planned(meant, "gemm", options)
        assert plan.gate is not None and plan.replicates == count
        assert (plan.gate.share, plan.gate.baseline, plan.gate.contender) == (0.05, "openblas", "naive")


def test_the_outcome_is_the_exit_code_and_the_first_line(ran: Callable[..., Ran], tmp_path: Path) -> None:
    """The last variant against the first, whatever is between them; the fake openblas takes 1.047 times as long."""
    for first, last, outcome, code in (("openblas", "naive", "passed", 0), ("naive", "openblas", "failed", 1)):
        path = tmp_path / f"{last}.jsonl"
        measured = ran(*SMALL, "--variant", f"{first},numpy,{last}", "--gate", "2%", "-o", str(path))
        assert measured.code == code, measured.err
        assert [note.data["outcome"] for note in store.read(path).notes if note.topic == "gate"] == [outcome]
        line = measured.out.splitlines()[0]
        assert line.startswith(f"Gate 2%: {outcome}: {last} takes ") and "numpy" not in line
