"""Every option of the commands that are no benchmark: another request than without it, or a refusal that names it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import UsageError
from macro import env, equal, explain, run, shapes, whatif
from micro import __main__ as everything
from micro import ab, ceiling, selftest
from micro.command.everything import parts
from micro.planning.options import Outputs, outputs_of
from reports import formats
from reports.__main__ import main as reports_main
from tests.options import OUTPUTS, ROOT, either, options_of


def duel(words: list[str]) -> object:
    return replace(ab.unpacked(vars(ab.parser().parse_args(words))), outputs=Outputs())


def of_all(words: list[str]) -> object:
    """What `micro all` plans; its two numbers are read where it begins to measure."""
    read = everything.parser().parse_args(words)
    todo = parts(read.device, read.small)
    return [(part.title, part.plan.contests) for part in todo], read.budget, read.replicate


def peaks(words: list[str]) -> object:
    from kernels.devices import open_device

    read = ceiling.parser().parse_args(words)
    device = open_device(read.device)
    return ceiling.contests(device.name, device.limits(), read.threads)


def of_selftest(words: list[str]) -> object:
    read = selftest._asked(selftest.parser().parse_args(words))
    return getattr(read, "func", read), getattr(read, "args", ())


def of_macro(request: Callable[[list[str]], Any]) -> Callable[[list[str]], object]:
    def plan(words: list[str]) -> object:
        read = request(words)
        return replace(read, **{name: value for name, value in FIXED.items() if hasattr(read, name)})

    return plan


FIXED = {"outputs": Outputs(), "quiet": False}
EXPLAIN = "fcn-r numpy kernels-only"
COMMANDS: Mapping[str, tuple[Callable[[], argparse.ArgumentParser], Callable[[list[str]], object], str]] = {
    "ab": (ab.parser, duel, "-- micro.gemm --m 8"),
    "all": (everything.parser, of_all, "all"),
    "ceiling": (ceiling.parser, peaks, ""),
    "selftest": (selftest.parser, of_selftest, ""),
    "run": (run.parser, of_macro(run.request), "fcn-r"),
    "equal": (equal.parser, of_macro(equal.request), "fcn-r"),
    "explain": (explain.parser, of_macro(explain.request), EXPLAIN),
    "whatif": (whatif.parser, of_macro(whatif.request), "fcn-r numpy batch=5"),
}
FRAMEWORKS = {"--batch": "8", "--threads": "2", "--set": "OMP_WAIT_POLICY=active"}
VALUES: Mapping[str, Mapping[str, str]] = {
    "ab": {
        "--repo-a": "tests/..",
        "--repo-b": "tests/..",
        "--python-a": "python3",
        "--python-b": "python3",
        "--processes": "7",
        "--budget": "7s",
        "--margin": "7%",
        "--gate": "7%",
    },
    "all": {"--device": "fake", "--budget": "7s", "--replicate": "5", "--small": ""},
    "ceiling": {"--device": "fake", "--threads": "2"},
    "selftest": {"--full": "", "--explain": ""},
    "run": {
        **FRAMEWORKS,
        "--device": "fake",
        "--frameworks": "pytorch",
        "--phase": "forward",
        "--heap": "keep",
        "--division": "tuned",
        "--budget": "7s",
        "--runs": "2",
        "--margin": "7%",
    },
    "equal": {**FRAMEWORKS, "--frameworks": "numpy", "--device": "fake"},
    "explain": {
        **FRAMEWORKS,
        "--device": "fake",
        "--phase": "forward",
        "--heap": "keep",
        "--division": "tuned",
        "--runs": "2",
        "--budget": "7s",
        "--kernels": "",
    },
    "whatif": {**FRAMEWORKS, "--phase": "forward", "--heap": "keep", "--runs": "2", "--budget": "7s", "--apart": ""},
}
BESIDE = {"--mechanisms"}  # refused beside `all`: see below


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.devices.cpu.cores", lambda: 4)
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_a_table(name: str) -> None:
    assert options_of(COMMANDS[name][0]()) - OUTPUTS.keys() - BESIDE == VALUES[name].keys()


@pytest.mark.parametrize(("name", "option"), [(name, option) for name in COMMANDS for option in VALUES[name]])
def test_an_option_changes_what_is_asked_or_is_refused(name: str, option: str) -> None:
    _, plan, base = COMMANDS[name]
    more = [option, VALUES[name][option]] if VALUES[name][option] else [option]
    words = [*more, *shlex.split(base)] if name == "ab" else [*shlex.split(base), *more]
    used, refusal = False, ""
    try:
        used = plan(words) != plan(shlex.split(base))
    except UsageError as error:
        refusal = str(error)
    either((name, *words), option, used, refusal)


@pytest.mark.parametrize("option", ["--device", "--budget", "--replicate", "--small", "-o", "--resume", "-q"])
@pytest.mark.parametrize("what", [[], ["--mechanisms"]], ids=["list", "mechanisms"])
def test_what_measures_nothing_has_no_option_of_measuring(
    what: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {**VALUES["all"], "-o": "run.jsonl"}
    with pytest.raises(SystemExit) as refused:
        everything.main([option, *([values[option]] if values.get(option) else []), *what])
    out, err = capsys.readouterr()
    assert refused.value.code == 2 and not out
    assert err.startswith(f"python -m micro: {option}: ") and err.count("\n") == 1


def test_both_threads_of_what_runs_each_framework_once_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^--threads 1,2: one number"):
        equal.request(["fcn-r", "--threads", "1,2"])
    with pytest.raises(UsageError, match=r"^--threads 1,2: one number"):
        explain.request([*EXPLAIN.split(), "--threads", "1,2"])


def test_names_and_folders_are_what_is_asked() -> None:
    assert shapes.request(["fcn-r"]) != shapes.request(["fcn-s"])
    assert env.request(["create", "jax"]) != env.request(["remove", "jax"]) != env.request(["list"])
    assert env.request(["create", "jax", "--wheels", "x"]).wheels == Path("x")
    assert env.request(["list", "--try"]).again


@pytest.mark.parametrize("kind", [kind for kind in formats.documents() if kind != "text"])
def test_every_case_with_its_command_is_of_the_text_alone(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert reports_main(["show", "-v", f"--{kind}", "run.jsonl"]) == 2
    assert capsys.readouterr().err.startswith("reports show: -v: ")


@pytest.mark.parametrize("name", COMMANDS)
def test_outputs_are_read(name: str) -> None:
    """They change no plan: what each does is shown by the test that the table names."""
    parser, _, base = COMMANDS[name]
    for option in options_of(parser()) & OUTPUTS.keys() - {"--list", "-v"}:
        value = [] if option in ("-q", "--resume") else ["file"]
        words = [option, *value, *shlex.split(base)]
        read = outputs_of(vars(parser().parse_args(words)))
        assert name == "selftest" or read != Outputs(), words
