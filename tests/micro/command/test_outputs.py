"""Documents: what is there is replaced by whole ones alone, and a reader that leaves costs none of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reports import store
from reports.__main__ import main
from tests.conftest import Ran

ROOT = Path(__file__).parents[3]
QUICK = ("--m", "8", "--n", "8", "--k", "8", "--device", "fake", "--variant", "openblas,naive")
Gemm = Callable[..., Ran]


def test_a_file_of_another_kind_is_not_replaced(gemm: Gemm, tmp_path: Path) -> None:
    source = tmp_path / "mine.c"
    source.write_text("int x;\n")
    ran = gemm(*QUICK, "--csv", str(source))
    assert (ran.code, source.read_text()) == (2, "int x;\n")
    assert "mine.c: there is such a file, and its name does not end in .csv: name another" in ran.err


def test_a_document_is_replaced_when_the_new_one_is_whole(gemm: Gemm, tmp_path: Path) -> None:
    there, new = tmp_path / "a.csv", tmp_path / "b"
    there.write_text("of before\n")
    assert gemm(*QUICK, "--csv", str(there), "--json", str(new)).code == 0
    assert there.read_text().startswith("contest")
    assert json.loads(new.read_text())["results"]
    assert not list(tmp_path.glob("*.part"))


def test_a_refused_command_leaves_a_document_as_it_is(gemm: Gemm, tmp_path: Path) -> None:
    there = tmp_path / "a.csv"
    there.write_text("of before\n")
    assert gemm(*QUICK, "--csv", str(there), "--json", str(tmp_path / "none" / "x")).code == 2
    assert there.read_text() == "of before\n"
    assert not list(tmp_path.glob("*.part"))


def test_an_export_leaves_a_file_of_another_kind(
    gemm: Gemm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, source = tmp_path / "run.jsonl", tmp_path / "mine.c"
    source.write_text("int x;\n")
    assert gemm(*QUICK, "-o", str(run)).code == 0
    assert store.read(run).results
    assert main(["export", str(run), "--to", "csv", "-o", str(source)]) == 2
    assert "does not end in .csv" in capsys.readouterr().err
    assert source.read_text() == "int x;\n"


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
