"""The command line: what is refused with one line, what a plan shows, what a run prints where, and how it was typed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from micro.command import environment
from micro.planning.contest import parse
from reports import store
from tests.conftest import Ran
from tests.processes import ROOT, python

SIZE = ("--m", "8", "--n", "8", "--k", "8")
FAKE = ("--device", "fake")
QUICK = (*SIZE, *FAKE, "--variant", "openblas,naive")
Gemm = Callable[..., Ran]


def refused(ran: Ran, lines: int = 1) -> None:
    """Exit code 2, so many lines for the person at most, nothing else."""
    assert ran.code == 2
    assert ran.out == ""
    assert 1 <= len(ran.err.splitlines()) <= lines, ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("words", ["--m", "--banana", "--until banana", "--target -1%", "-q -v", "stray"])
def test_bad_options_are_refused_with_few_lines(gemm: Gemm, words: str) -> None:
    refused(gemm(*words.split()), lines=6)


def test_refusals_leave_files_as_they_are(gemm: Gemm, tmp_path: Path) -> None:
    there = tmp_path / "a.csv"
    there.write_text("of before\n")
    for words in (["--csv", "no_such_folder/x"], ["--csv", str(there), "--json", str(tmp_path / "none" / "x")]):
        refused(gemm(*QUICK, *words, "-o", str(tmp_path / "run.jsonl")))
        assert [x.name for x in tmp_path.iterdir() if x.name != "state"] == ["a.csv"]
    assert there.read_text() == "of before\n"


def test_a_plan_lists_contests_and_cases(gemm: Gemm) -> None:
    ran = gemm(*SIZE, "--variant", "openblas,naive", "--trans", "nn,nt", "--list")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "gemm/m:8/n:8/k:8 (differs: variant)",
        "  gemm/m:8/n:8/k:8/variant:openblas/threads:1",
        "  gemm/m:8/n:8/k:8/variant:naive/threads:1",
        "gemm/m:8/n:8/k:8/trans:nt (differs: variant)",
        "  gemm/m:8/n:8/k:8/trans:nt/variant:openblas/threads:1",
        "  gemm/m:8/n:8/k:8/trans:nt/variant:naive/threads:1",
    ]


def test_only_and_not_choose_contests(gemm: Gemm) -> None:
    ran = gemm("--m", "8,16,24", "--variant", "openblas", "--only", "m:(8|16)/", "--not", "m:16", "--list")
    assert [line.split("/")[1] for line in ran.out.splitlines() if line[0] != " "] == ["m:8"]


@pytest.mark.parametrize(
    ("until", "status"), [("plan", "planned"), ("build", "built"), ("run", "ran"), ("check", "ran"), ("time", "ok")]
)
def test_the_ladder_in_a_document(gemm: Gemm, until: str, status: str) -> None:
    ran = gemm(*QUICK, "--until", until, "--json", "-")
    document = json.loads(ran.out)
    assert (ran.code, document["format"]) == (0, 1) and "scripted clock" in ran.err
    assert {result["status"] for result in document["results"] if result["role"] == "measured"} == {status}


def test_without_a_document_the_answer_goes_to_stdout(gemm: Gemm) -> None:
    ran = gemm(*QUICK, "-q")
    assert "scripted clock" in ran.out
    assert ran.err == ""


def test_a_wrong_kernel_makes_the_exit_code_1(gemm: Gemm, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels.devices import fake

    monkeypatch.setattr(fake.Fake, "_answer", lambda self, problem, buffers: None)
    ran = gemm(*QUICK)
    assert ran.code == 1
    assert "wrong: writes nothing" in ran.out


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("--trans nt --beta 0.5 --ld-pad 3 --cold a,b --threads 2", "--cold a,b"),
        ("--alpha=-1e-5 --variant naive", "--alpha=-1e-05"),
        ("--workspace 8MiB --variant numpy", "--workspace 8MiB"),
        ("--heap keep --variant numpy", "--heap keep"),
        ("--isa default --data zeros --threads 2 --cold a", "--data zeros"),
        ("--isa Zen --data normal", "--isa Zen"),
    ],
)
def test_the_line_that_repeats_a_case_names_it_again(gemm: Gemm, words: str, option: str) -> None:
    ran = gemm(*QUICK, *words.split(), "--json", "-")
    for result in json.loads(ran.out)["results"]:
        if result["role"] == "measured":
            again = gemm(*result["repeat"].split()[3:], "--list")
            assert again.out.splitlines()[1].split()[0] == result["name"] and option in result["repeat"]
            assert parse(result["name"]).name == result["name"]


def test_the_command_itself_refuses() -> None:
    ran = python("-m", "micro.gemm", "--m", "0")
    refused(Ran(ran.returncode, ran.stdout, ran.stderr))


# Documents


def test_a_document_is_replaced_when_the_new_one_is_whole(gemm: Gemm, tmp_path: Path) -> None:
    there, new = tmp_path / "a.csv", tmp_path / "b"
    there.write_text("of before\n")
    assert gemm(*QUICK, "--csv", str(there), "--json", str(new)).code == 0
    assert there.read_text().startswith("contest")
    assert json.loads(new.read_text())["results"]
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.slow
def test_a_reader_that_leaves_early_costs_no_document(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "micro.gemm", *QUICK, "-q", "--csv", str(tmp_path / "a.csv")]
    words += ["--markdown", str(tmp_path / "a.md"), "--figures", str(tmp_path / "pictures")]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (141, b"")
    assert (tmp_path / "a.csv").read_text().startswith("contest")
    assert (tmp_path / "a.md").stat().st_size
    assert list((tmp_path / "pictures").iterdir())


# What a command of the suite does is replaced by what it would record as typed.
STARTED = """
import runpy, sys
from micro.command import line, environment
line.guarded = lambda name, body: print(environment.command_line()) or 0
how, sys.argv = sys.argv[1], sys.argv[1:]
if how.endswith(".py"):
    runpy.run_path(how, run_name="__main__")
else:
    runpy.run_module(how, run_name="__main__", alter_sys=True)
"""


def started(*words: str) -> str:
    ran = python("-c", STARTED, *words)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.rstrip("\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["macro", "run", "fcn-s", "--batch", "64"], "python -m macro run fcn-s --batch 64"),
        (["micro.ab", "--", "micro.gemm"], "python -m micro.ab -- micro.gemm"),
        (["micro.stream", "--only", "a b"], "python -m micro.stream --only 'a b'"),
        (["micro/gemm.py", "--m", "8"], "python micro/gemm.py --m 8"),
    ],
)
def test_a_command_of_the_suite_as_it_was_started(words: list[str], told: str) -> None:
    assert started(*words) == told


def test_a_run_file_keeps_it(tmp_path: Path) -> None:
    words = ["--m", "8", "--n", "8", "--k", "8", "--variant", "openblas", "--device", "fake", "-q", "--budget", "0.2s"]
    ran = python("-m", "micro.gemm", *words, "-o", "run.jsonl", cwd=tmp_path, state=tmp_path / "state")
    assert (ran.returncode, ran.stderr) == (0, "")
    command = store.read(tmp_path / "run.jsonl").environment.command
    assert command == f"python -m micro.gemm {' '.join(words)} -o run.jsonl"


@pytest.mark.parametrize(
    ("module", "script", "told"),
    [
        ("kernels.__main__", f"{ROOT}/kernels/__main__.py", "python -m kernels --x"),
        ("macro.__main__", f"{ROOT}/macro/__main__.py", "python -m macro --x"),
        (None, "script.py", "from Python: script.py"),
        ("ipykernel_launcher", f"{ROOT}/ipykernel_launcher.py", "from Python: ipykernel_launcher.py"),
        ("pytest.__main__", f"{ROOT}/pytest/__main__.py", "from Python: __main__.py"),
        ("__main__", f"{ROOT}/macro", "python macro --x"),
        (None, "", "from Python: interactive"),
    ],
)
def test_each_way_to_start_it(monkeypatch: pytest.MonkeyPatch, module: str | None, script: str, told: str) -> None:
    """An environment in the checkout, or the suite among other packages, makes none of these a module of the suite."""
    main = ModuleType("__main__")
    monkeypatch.setattr(main, "__spec__", SimpleNamespace(name=module) if module else None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "argv", [script, "--x"])
    assert environment.command_line() == told
