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


def asked(command: str) -> Options:
    _, options = request(BENCHMARK, "gemm", shlex.split(command.removeprefix("python -m micro.gemm")))
    return options


def test_both_ways_are_typed_and_understood() -> None:
    why, turns = again.sentences(of(f"{COMMAND} {NOT_THOSE}"), of(f"{COMMAND} --budget=4s -v --target 2%"), 5)
    (command,) = re.findall(r"Where a ran: (.+?); where b ran: the same, -o b5.jsonl", why)
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
    why, _ = again.sentences(of(COMMAND), of(other), 7)
    assert f"Where a ran: {COMMAND} --replicate 7 -o a7.jsonl; where b ran: {other} --replicate 7 -o b7.jsonl." in why


@pytest.mark.parametrize("command", ["from Python: interactive", "python -m micro all", "python -m micro.ceiling"])
def test_of_what_is_no_benchmark_no_command_is_made_up(command: str) -> None:
    repeat = "python -m micro.ceiling" if command.endswith("ceiling") else f"{COMMAND} --threads 1"
    (why,) = again.sentences(of(command, repeat), of(COMMAND), 5)
    assert "--replicate 5" in why and "python -m micro.ab" in why and command not in why


def test_they_stand_above_what_has_no_verdict() -> None:
    both = compare.runs(of(COMMAND), of(COMMAND))
    assert any("--replicate 5 -o a5.jsonl" in x for x in both.notes[0].data["sentences"])
    five = run(result([1e-6] * 5))
    assert not any("--replicate" in x for x in compare.runs(five, five).notes[0].data["sentences"])
