"""Every option of every benchmark, beside each of its questions: it changes the plan, or is refused by its name."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import fields

import pytest

from kernels.catalog import rows
from kernels.errors import UsageError
from micro.command import everything
from micro.planning.benchmark import NothingWritten
from micro.planning.options import EXPORTS, option_of, parser, request
from micro.planning.request import Plan, planned
from tests.options import OUTPUTS, ROOT, either, options_of

BENCHMARKS = everything.benchmarks()
VALUES = {  # of options that every benchmark has, each other than its default
    "--device": "fake",
    "--threads": "2",
    "--isa": "avx2",
    "--heap": "keep",
    "--preload": "mkl-intel",
    "--workspace": "8MiB",
    "--data": "zeros",
    "--cold": "all",
    "--budget": "7s",
    "--target": "3%",
    "--margin": "7%",
    "--replicate": "5",
    "--only": "no contest",
    "--not": ".",
    "--until": "build",
    "--vary": "threads",
    "--net": "lenet",
    "--shapes": "micro/shapes/fc.json",
    "--why": "",
    "--profile": "",
    "--full": "",
    "--all": "",
}
NUMBERS = ("3", "64")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.devices.cpu.cores", lambda: 4)
    monkeypatch.chdir(ROOT)


# Questions that a processor has no kernels for.
OF_A_GPU = (
    ("memory", "exchange"),
    ("transfer", "beside"),
    ("transfer", "pageable"),
    ("conv", "engines"),
    ("launch", "gaps"),
)


def forms() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every benchmark without a question, and with each of its own."""
    for name, benchmark in BENCHMARKS.items():
        yield name, ()
        every = dict.fromkeys(flag for one in (benchmark, *benchmark.others) for flag in one.questions)
        yield from ((name, (option_of(flag),)) for flag in every if (name, flag) not in OF_A_GPU)
        yield from ((name, ("--net", "alexnet-r")) for _ in [benchmark.net] if benchmark.net)


LARGE = ("conv", "cpu")  # whose questions plan hundreds of cases: each option plans them anew
FORMS = [
    pytest.param(name, form, marks=pytest.mark.slow if name in LARGE and form else (), id=" ".join((name, *form)))
    for name, form in forms()
]


def plan(name: str, words: tuple[str, ...]) -> tuple[Plan, str | None]:
    """What a line plans, and what it profiles."""
    meant, options = request(BENCHMARKS[name], name, words, raising=True)
    return planned(meant, name, options), options.profile


@functools.cache
def essence(name: str, words: tuple[str, ...]) -> tuple[object, ...]:
    """All that a plan is of; its functions are those of its question, which chose the contests."""
    whole, profile = plan(name, words)
    return whole.contests, whole.budget, whole.devices, whole.until, whole.why, whole.replicates, whole.log, profile


def lines(name: str, form: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Every option that it has beside its form, with values that it has not by default."""
    benchmark = BENCHMARKS[name]
    every = (benchmark, *benchmark.others)
    for axis in {axis.name: axis for one in every for axis in fields(one.problem)}.values():
        for value in axis.metadata["choices"] or NUMBERS:
            yield option_of(axis.name), str(value)
    yield from ((option_of(flag), "") for flag in {flag for one in every for flag in one.questions})
    yield from VALUES.items()


def as_named(name: str, words: tuple[str, ...], option: str, value: str) -> bool:
    """Whether all cases have this value of an axis."""
    whole, _ = plan(name, words)
    own = [vars(case.problem) for contest in whole.contests for case in contest.cases]
    axis = option[2:].replace("-", "_")
    return any(axis in problem for problem in own) and all(str(problem.get(axis, value)) == value for problem in own)


def other(form: tuple[str, ...], name: str, option: str) -> bool:
    """Whether an option is not the form itself, nor the question that a line without one asks."""
    return option not in form and not (not form and option == option_of(BENCHMARKS[name].default))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_every_option_is_used_or_refused(name: str, form: tuple[str, ...]) -> None:
    before = essence(name, form)
    for option, value in lines(name, form):
        if not other(form, name, option):
            continue
        words, used, refusal = (*form, *(f"{option}={value}" if value else option).split("\n")), False, ""
        try:
            used = essence(name, words) != before or as_named(name, words, option, value)
        except NothingWritten:  # of a GPU's question, or its operation
            continue
        except UsageError as error:
            refusal = str(error)
        either((name, *words), option, used, refusal)


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_every_variant_is_measured_or_refused(name: str, form: tuple[str, ...]) -> None:
    before = essence(name, form)
    meant, _ = request(BENCHMARKS[name], name, form, raising=True)
    for row in rows(meant.problem.op, "cpu"):
        words, used, refusal = (*form, "--variant", row.name), False, ""
        try:
            after, _ = plan(name, words)
            cases = [case for contest in after.contests for case in contest.cases]
            assert row.name in {case.variant for case in cases}, " ".join(words)
            used = essence(name, words) != before or {case.variant for case in cases} == {row.name}
        except UsageError as error:
            refusal = str(error)
        either((name, *words), "--variant", used, refusal)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_no_option_is_left_out_here(name: str) -> None:
    """One that is new must be put into a table above."""
    benchmark = BENCHMARKS[name]
    for one in (benchmark, *benchmark.others):
        own = {option_of(word) for word in one.words}
        assert options_of(parser(one, name)) <= own | VALUES.keys() | OUTPUTS.keys() | {"--variant"}


@pytest.mark.parametrize("option", OUTPUTS)
def test_what_an_output_does_is_shown_elsewhere(option: str) -> None:
    text = (ROOT / OUTPUTS[option]).read_text("utf-8")
    assert f'"{option}"' in text or (option[2:] in EXPORTS and '"--{kind}"' in text)


TIMED = [("--budget", "2s"), ("--target", "3%"), ("--margin", "3%"), ("--replicate", "5")]
FILES = [("-o", "run.jsonl"), ("--figures", "pictures"), ("--json", "run.json")]


@pytest.mark.parametrize("mode", [("--until", "build"), ("--profile",)], ids=" ".join)
@pytest.mark.parametrize(("option", "value"), TIMED)
def test_where_nothing_is_timed_no_option_says_how(mode: tuple[str, ...], option: str, value: str) -> None:
    with pytest.raises(UsageError, match=rf"^{option} {value}: with {mode[0]} nothing is timed"):
        plan("stream", (*mode, option, value))


@pytest.mark.parametrize(("option", "value"), [*FILES, ("--until", "build")])
def test_a_profile_writes_no_file_and_goes_no_further(option: str, value: str) -> None:
    with pytest.raises(UsageError, match=rf"^{option} {value}: --profile "):
        plan("stream", ("--size", "4096", "--variant", "c", "--profile", option, value))
