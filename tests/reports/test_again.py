"""The commands that give two runs a verdict: typed in full, and understood by what they name."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from micro import ab
from micro.gemm import BENCHMARK
from micro.planning.options import Options, request
from reports import again, compare, formats
from reports.record import Run
from tests.reports.test_compare import result, run

ROOT = Path(__file__).parents[2]
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
    assert (options.replicate, str(options.outputs.output), options.budget, options.target) == (
        "5",
        "a5.jsonl",
        "4s",
        "2%",
    )
    assert not (options.outputs.resume or options.outputs.quiet or options.outputs.figures or options.outputs.documents)
    words = turns.partition("python -m micro.ab ")[2].replace("OLD", str(ROOT)).replace("NEW", str(ROOT))
    duel = ab.unpacked(vars(ab.parser().parse_args(shlex.split(words))))
    assert duel.words == ("micro.gemm", *shlex.split(CASES))


def test_every_format_that_a_benchmark_writes_is_an_output() -> None:
    assert {f"--{kind}" for kind in formats.documents()} == set(again.DOCUMENTS)


def test_two_commands_are_both_typed() -> None:
    other = COMMAND.replace("openblas,naive", "numpy")
    why, _ = again.sentences(of(COMMAND), of(other), [FEW], 7)
    assert f"where a ran: {COMMAND} --replicate 7 -o a7.jsonl; where b ran: {other} --replicate 7 -o b7.jsonl." in why


@pytest.mark.parametrize("command", ["from Python: interactive", "python -m micro all", "python -m micro.ceiling"])
def test_of_what_is_no_benchmark_no_command_is_made_up(command: str) -> None:
    repeat = "python -m micro.ceiling" if command.endswith("ceiling") else f"{COMMAND} --threads 1"
    why = " ".join(again.sentences(of(command, repeat), of(COMMAND), [FEW], 5))
    assert "--replicate 5" in why and "python -m micro.ab" in why and command not in why


def test_they_stand_above_what_has_no_verdict() -> None:
    both = compare.runs(of(COMMAND), of(COMMAND))
    assert any("--replicate 5 -o a5.jsonl" in x for x in both.notes[0].data["sentences"])
    five = run(result([1e-6] * 5))
    assert not any("--replicate" in x for x in compare.runs(five, five).notes[0].data["sentences"])


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
