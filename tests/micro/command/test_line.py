"""The command line: what is refused with one line, what a plan shows, what a run prints where."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ran

ROOT = Path(__file__).parents[3]
SIZE = ("--m", "8", "--n", "8", "--k", "8")
FAKE = ("--device", "fake")
QUICK = (*SIZE, *FAKE, "--variant", "openblas,naive")
Gemm = Callable[..., Ran]

BAD = [
    "--m 0",
    "--m -5",
    "--m five",
    "--m 1.5",
    "--m 1:2",
    "--m 1:8:*1",
    "--trans xx",
    "--dtype fp64",
    "--ld-pad -1",
    "--device banana",
    "--device cuda:7",
    "--device cpu:7",
    "--threads 0",
    "--threads 999",
    "--threads two",
    "--cold z",
    "--variant nothing",
    "--variant openblas,nothing",
    "--variant kept-transpose:x",
    "--variant kept-transpose:0",
    "--variant transpose-then-nn:x",
    "--variant no_such_module:ROW",
    "--variant no_such_file.py:ROW",
    "--variant json:__name__",
    "--vary banana",
    "--only [",
    "--not [",
    "--only nomatch",
    "--not gemm",
    "--budget 0",
    "--budget abc",
    "--budget 5parsecs",
    "--target 0",
    "--target abc",
    "--target=-1%",
    "--margin 0",
    "--shapes missing.json",
    "-o no_such_folder/run.jsonl",
    "--json no_such_folder/run.json",
    "--csv no_such_folder/run.csv",
    "--json - --csv -",
    "--transpose --crossover",
]


def refused(ran: Ran, lines: int = 1) -> None:
    """Exit code 2, so many lines for the person at most, nothing else."""
    assert ran.code == 2
    assert ran.out == ""
    assert 1 <= len(ran.err.splitlines()) <= lines, ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_refused_with_one_line(gemm: Gemm, words: str) -> None:
    fake = () if "--device" in words else FAKE
    ran = gemm(*words.split(), *fake)
    refused(ran)
    assert ran.err.startswith("micro.gemm: ")


@pytest.mark.parametrize("words", ["--m", "--banana", "--until banana", "--target -1%", "-q -v", "stray"])
def test_bad_options_are_refused_with_few_lines(gemm: Gemm, words: str) -> None:
    refused(gemm(*words.split()), lines=6)


@pytest.mark.parametrize("sizes", ["99999999", "8,99999999"])
def test_a_size_beyond_the_memory_is_refused_before_anything_is_measured(gemm: Gemm, sizes: str) -> None:
    ran = gemm("--m", sizes, "--n", "99999999", "--k", "99999999", "--variant", "openblas", *FAKE)
    refused(ran)
    assert "memory" in ran.err


SHAPES: dict[str, Any] = {
    "empty file": "",
    "junk": "junk",
    "binary": b"\x80\x00\xff",
    "a list": "[1, 2]",
    "no problems": "{}",
    "problems is a number": '{"problems": 5}',
    "none": '{"problems": []}',
    "size zero": '{"problems": [{"m": 0, "n": 1, "k": 1}]}',
    "field missing": '{"problems": [{"m": 1}]}',
    "null size": '{"problems": [{"m": null, "n": 1, "k": 1}]}',
}


@pytest.mark.parametrize("kind", SHAPES)
def test_a_bad_file_of_shapes_is_refused(gemm: Gemm, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "shapes.json"
    text = SHAPES[kind]
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(gemm("--shapes", str(path), *FAKE))


def test_a_folder_is_no_file_of_shapes(gemm: Gemm, tmp_path: Path) -> None:
    refused(gemm("--shapes", str(tmp_path), *FAKE))


@pytest.mark.parametrize("row", ['"x"', '{"m": 8.5, "n": 8, "k": 8}'])
def test_a_bad_row_of_shapes_is_refused(gemm: Gemm, tmp_path: Path, row: str) -> None:
    path = tmp_path / "shapes.json"
    path.write_text(f'{{"problems": [{row}]}}')
    refused(gemm("--shapes", str(path), "--variant", "openblas", *FAKE))


@pytest.mark.parametrize(
    "words",
    [
        "--k 64:32:+1",
        "--trans nn:nt:+1",
        "--threads 2:1:+1",
        "--variant openblas,openblas",
        "--vary trans --trans nn,nn",
        "--threads 1,1",
        "--budget 1e999 --list",
        "--variant :x",
        "--variant ..x:y",
        "--variant kept-transpose:²",
        "--alpha nan --list",
    ],
)
def test_these_too_ought_to_be_refused(gemm: Gemm, words: str) -> None:
    refused(gemm(*words.split(), *FAKE, "--until", "plan"))


def test_shapes_along_a_field_without_values(gemm: Gemm, tmp_path: Path) -> None:
    path = tmp_path / "shapes.json"
    path.write_text('{"problems": [{"m": 8, "n": 8, "k": 8}]}')
    ran = gemm("--shapes", str(path), "--vary", "beta", "--variant", "openblas", *FAKE)
    assert ran.code in (0, 2)


@pytest.mark.parametrize("text", ["def (", "undefined_name"])
def test_a_user_s_file_with_an_error_is_refused(gemm: Gemm, tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    refused(gemm("--variant", f"{path}:ROW", *FAKE))


def test_a_variant_from_a_path_reaches_the_report(gemm: Gemm, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("from kernels.ops.gemm.variants import VARIANTS\nROW = VARIANTS[0]\n")
    ran = gemm(*SIZE, *FAKE, "--variant", f"openblas,{path}:ROW")
    assert ran.code == 0
    assert "mine.py:ROW" in ran.out


def test_refusals_leave_no_file_behind(gemm: Gemm, tmp_path: Path) -> None:
    refused(gemm(*QUICK, "--csv", "no_such_folder/x", "-o", str(tmp_path / "run.jsonl")))
    assert not (tmp_path / "run.jsonl").exists()


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


@pytest.mark.parametrize("question", [(), ("--transpose",), ("--transpose", "--all"), ("--crossover",)])
def test_names_of_a_plan_are_unique_and_parse_back(gemm: Gemm, question: tuple[str, ...]) -> None:
    from micro.planning.contest import parse

    ran = gemm(*question, "--list")
    contests = [line.partition(" (differs")[0] for line in ran.out.splitlines() if line[0] != " "]
    assert len(set(contests)) == len(contests) > 0
    for line in ran.out.splitlines():
        if line.startswith("  "):
            name = line.split()[0]
            assert parse(name).name == name


def test_only_and_not_choose_contests(gemm: Gemm) -> None:
    ran = gemm("--m", "8,16,24", "--variant", "openblas", "--only", "m:(8|16)/", "--not", "m:16", "--list")
    assert [line.split("/")[1] for line in ran.out.splitlines() if line[0] != " "] == ["m:8"]


@pytest.mark.parametrize(
    ("until", "status"), [("plan", "planned"), ("build", "built"), ("run", "ran"), ("check", "ran"), ("time", "ok")]
)
def test_the_ladder(gemm: Gemm, until: str, status: str) -> None:
    ran = gemm(*QUICK, "--until", until, "--json", "-")
    results = json.loads(ran.out)["results"]
    assert ran.code == 0
    assert {result["status"] for result in results if result["role"] == "measured"} == {status}


def test_a_document_has_stdout_to_itself(gemm: Gemm) -> None:
    ran = gemm(*QUICK, "--json", "-")
    assert json.loads(ran.out)["format"] == 1
    assert "scripted clock" in ran.err


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


def test_the_line_that_repeats_a_case_names_it_again(gemm: Gemm) -> None:
    words = ("--trans", "nt", "--beta", "0.5", "--ld-pad", "3", "--cold", "a,b", "--threads", "2")
    told = json.loads(gemm(*QUICK, *words, "--json", "-").out)
    for result in told["results"]:
        if result["role"] == "measured":
            again = gemm(*result["repeat"].split()[3:], "--list")
            assert again.out.splitlines()[1].strip() == result["name"]


def test_the_line_that_repeats_a_case_holds_small_negative_numbers(gemm: Gemm) -> None:
    (line,) = {
        result["repeat"]
        for result in json.loads(gemm(*QUICK, "--alpha=-1e-5", "--until", "plan", "--json", "-").out)["results"]
        if result["variant"] == "naive"
    }
    assert gemm(*line.split()[3:], "--list").code == 0


def command(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "micro.gemm", *argv], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


def test_the_command_itself_refuses() -> None:
    ran = command("--m", "0")
    refused(Ran(ran.returncode, ran.stdout, ran.stderr))


def test_a_reader_that_leaves_early_costs_no_traceback() -> None:
    ran = subprocess.run(
        f"{sys.executable} -m micro.gemm --m 1:2000:+1 --list | head -1",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("gemm/m:1/")
