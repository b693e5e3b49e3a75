"""Every option of every command: it changes the plan, or is refused by its name."""

from __future__ import annotations

import argparse
import functools
import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from kernels.catalog import rows
from kernels.errors import UsageError
from macro import equal, explain, run, whatif
from micro import __main__ as micro_main
from micro import ab, ceiling, selftest
from micro.command import everything
from micro.planning.benchmark import NothingWritten
from micro.planning.options import Outputs, option_of, outputs_of, parser, request
from micro.planning.request import Plan, planned
from reports import formats
from reports.__main__ import main as reports_main

ROOT = Path(__file__).parents[1]
BENCHMARKS = everything.benchmarks()
# Options of what is printed and kept.
OUTPUTS = {"-q", "-v", "-o", "--resume", "--keep-wrong", "--figures", "--list"}
OUTPUTS |= {f"--{kind}" for kind in formats.kinds() if kind != "text"}
# A value of each option, other than its default; "" of a flag.
VALUES: dict[str, str] = json.loads((ROOT / "tests/option_values.json").read_text("utf-8"))
OF_BENCHMARKS = "device threads isa heap preload workspace data cold budget target margin replicate gate only not until"
OF_BENCHMARKS += " vary net shapes why profile full all"
NUMBERS = ("3", "64")


@pytest.fixture(autouse=True)
def _here(four_cores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def options_of(commands: argparse.ArgumentParser) -> set[str]:
    """Return every option but --help, as it is typed."""
    return {action.option_strings[-1] for action in commands._actions if action.option_strings} - {"--help"}


def either(words: tuple[str, ...], option: str, used: Callable[[], bool]) -> None:
    """Fail unless an option changes what is planned, or a line that names it refuses it."""
    line, refusal, is_used = " ".join(words), "", False
    try:
        is_used = used()
    except UsageError as error:
        refusal = str(error)
    assert is_used or option in refusal, f"{line}: {option} changes nothing and is not refused by name: {refusal}"
    assert "\n" not in refusal, f"{line}: refused in several lines"


# Benchmarks

# Questions that a processor has no kernels for.
OF_A_GPU = ("memory exchange", "transfer beside", "transfer pageable", "conv engines", "launch gaps")
LARGE = ("conv", "cpu")  # whose questions plan hundreds of cases: each option plans them anew


def forms() -> Iterator[Any]:
    """Yield every benchmark without a question, and with each of its own."""
    for name, benchmark in BENCHMARKS.items():
        flags = dict.fromkeys(flag for one in (benchmark, *benchmark.others) for flag in one.questions)
        questions = [(option_of(flag),) for flag in flags if f"{name} {flag}" not in OF_A_GPU]
        for form in ((), *questions, *([("--net", "alexnet-r")] if benchmark.net else ())):
            slow = pytest.mark.slow if name in LARGE and form else ()
            yield pytest.param(name, form, marks=slow, id=" ".join((name, *form)))


FORMS = list(forms())


def plan(name: str, words: tuple[str, ...]) -> tuple[Plan, str | None]:
    """Return what a line plans, and what it profiles."""
    meant, options = request(BENCHMARKS[name], name, words, raising=True)
    return planned(meant, name, options), options.profile


@functools.cache
def essence(name: str, words: tuple[str, ...]) -> tuple[object, ...]:
    """Return all that a plan is of; its functions are those of its question, which chose the contests."""
    whole, profile = plan(name, words)
    return whole.contests, whole.budget, whole.devices, whole.until, whole.why, whole.replicates, whole.log, profile


def lines(name: str, form: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield every option beside a form but the question asked, with values that it has not by default."""
    benchmark = BENCHMARKS[name]
    every = (benchmark, *benchmark.others)
    for axis in {axis.name: axis for one in every for axis in fields(one.problem)}.values():
        for value in axis.metadata["choices"] or NUMBERS:
            yield option_of(axis.name), str(value)
    asked = form or (option_of(benchmark.default),)
    questions = {option_of(flag) for one in every for flag in one.questions}
    yield from ((option, "") for option in questions if option not in asked)
    common = (f"--{option}" for option in OF_BENCHMARKS.split())
    yield from ((option, VALUES[option]) for option in common if option not in asked)


def as_named(name: str, words: tuple[str, ...], option: str, value: str) -> bool:
    """Return whether all cases have this value of an axis."""
    whole, _ = plan(name, words)
    problems = [vars(case.problem) for contest in whole.contests for case in contest.cases]
    axis = option[2:].replace("-", "_")
    return any(axis in x for x in problems) and all(str(x.get(axis, value)) == value for x in problems)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_option_of_a_benchmark_is_used_or_refused(name: str, form: tuple[str, ...]) -> None:
    before = essence(name, form)
    for option, value in lines(name, form):
        words = (*form, f"{option}={value}" if value else option)

        def used(words: tuple[str, ...] = words, option: str = option, value: str = value) -> bool:
            try:
                return essence(name, words) != before or as_named(name, words, option, value)
            except NothingWritten:  # of a GPU's question, or its operation
                return True

        either((name, *words), option, used)


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_variant_is_measured_or_refused(name: str, form: tuple[str, ...]) -> None:
    before = essence(name, form)
    meant, _ = request(BENCHMARKS[name], name, form, raising=True)
    for row in rows(meant.problem.op, "cpu"):
        words = (*form, "--variant", row.name)

        def used(words: tuple[str, ...] = words, row: Any = row) -> bool:
            variants = {case.variant for contest in plan(name, words)[0].contests for case in contest.cases}
            assert row.name in variants, " ".join(words)
            return essence(name, words) != before or variants == {row.name}

        either((name, *words), "--variant", used)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_option_of_a_benchmark_is_in_a_table(name: str) -> None:
    common = {f"--{option}" for option in OF_BENCHMARKS.split()} | OUTPUTS | {"--variant"}
    for one in (BENCHMARKS[name], *BENCHMARKS[name].others):
        assert options_of(parser(one, name)) <= {option_of(word) for word in one.words} | common


# Other commands


def duel(words: list[str]) -> object:
    return replace(ab.unpacked(vars(ab.parser().parse_args(words))), outputs=Outputs())


def of_all(words: list[str]) -> object:
    """Return what `micro all` plans; its two numbers are read where it begins to measure."""
    read = micro_main.parser().parse_args(words)
    todo = everything.parts(read.device, read.small)
    return [(part.title, part.plan.contests) for part in todo], read.budget, read.replicate


def peaks(words: list[str]) -> object:
    from kernels.devices import open_device

    read = ceiling.parser().parse_args(words)
    device = open_device(read.device)
    return ceiling.contests(device.name, device.limits(), read.threads)


def of_selftest(words: list[str]) -> object:
    read = selftest._asked(selftest.parser().parse_args(words))
    return getattr(read, "func", read), getattr(read, "args", ())


def of_macro(asked: Callable[[list[str]], Any]) -> Callable[[list[str]], object]:
    def planned(words: list[str]) -> object:
        read = asked(words)
        return replace(read, **{name: value for name, value in FIXED.items() if hasattr(read, name)})

    return planned


FIXED = {"outputs": Outputs(), "quiet": False}
EXPLAIN = "fcn-r numpy kernels-only"
OF_STEPS = "batch threads set phase heap runs budget"
# A command's parser, its plan, the words that it needs, its options.
COMMANDS: Mapping[str, tuple[Callable[[], argparse.ArgumentParser], Callable[[list[str]], object], str, str]] = {
    "ab": (ab.parser, duel, "-- micro.gemm --m 8", "repo-a repo-b python-a python-b processes budget margin gate"),
    "all": (micro_main.parser, of_all, "all", "device budget replicate small"),
    "ceiling": (ceiling.parser, peaks, "", "device threads"),
    "selftest": (selftest.parser, of_selftest, "", "full explain"),
    "run": (run.parser, of_macro(run.request), "fcn-r", f"{OF_STEPS} device frameworks margin"),
    "equal": (equal.parser, of_macro(equal.request), "fcn-r", "batch threads set frameworks device"),
    "explain": (explain.parser, of_macro(explain.request), EXPLAIN, f"{OF_STEPS} device kernels"),
    "whatif": (whatif.parser, of_macro(whatif.request), "fcn-r numpy batch=5", f"{OF_STEPS} apart"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_option_of_a_command_is_in_a_table(name: str) -> None:
    named = {f"--{option}" for option in COMMANDS[name][3].split()}
    assert options_of(COMMANDS[name][0]()) - OUTPUTS - {"--mechanisms"} == named


@pytest.mark.parametrize(
    ("name", "option"), [(name, f"--{option}") for name in COMMANDS for option in COMMANDS[name][3].split()]
)
def test_option_of_a_command_changes_the_plan_or_is_refused(name: str, option: str) -> None:
    _, asked, base, _ = COMMANDS[name]
    more = [option, VALUES[option]] if VALUES[option] else [option]
    words = [*more, *shlex.split(base)] if name == "ab" else [*shlex.split(base), *more]
    either((name, *words), option, lambda: asked(words) != asked(shlex.split(base)))


@pytest.mark.parametrize("option", ["--device", "--budget", "--replicate", "--small", "-o", "--resume", "-q"])
@pytest.mark.parametrize("what", [[], ["--mechanisms"]], ids=["list", "mechanisms"])
def test_what_measures_nothing_has_no_option_of_measuring(
    what: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    value = {**VALUES, "-o": "run.jsonl"}.get(option)
    with pytest.raises(SystemExit) as refused:
        micro_main.main([option, *([value] if value else []), *what])
    out, err = capsys.readouterr()
    assert refused.value.code == 2 and not out
    assert err.startswith(f"python -m micro: {option}: ") and err.count("\n") == 1


def test_both_threads_of_what_runs_each_framework_once_are_refused() -> None:
    for asked, words in ((equal.request, ["fcn-r"]), (explain.request, EXPLAIN.split())):
        with pytest.raises(UsageError, match=r"^--threads 1,2: must be "):
            asked([*words, "--threads", "1,2"])


@pytest.mark.parametrize("kind", [kind for kind in formats.documents() if kind != "text"])
def test_every_case_with_its_command_is_of_the_text_alone(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert reports_main(["show", "-v", f"--{kind}", "run.jsonl"]) == 2
    assert capsys.readouterr().err.startswith("reports show: -v: ")


@pytest.mark.parametrize("name", COMMANDS)
def test_outputs_are_read(name: str) -> None:
    """They change no plan."""
    commands, _, base, _ = COMMANDS[name]
    for option in options_of(commands()) & OUTPUTS - {"--list", "-v"}:
        value = [] if option in ("-q", "--resume") else ["file"]
        words = [option, *value, *shlex.split(base)]
        assert name == "selftest" or outputs_of(vars(commands().parse_args(words))) != Outputs(), words
