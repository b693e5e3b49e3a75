"""`python -m reports show`: whole, damaged and missing run files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import Ran
from tests.reports.runs import REFUSED, called, damaged, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path / "run.jsonl")


Show = Callable[..., Ran]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """`show(FILE)`: the command `python -m reports show FILE`, in this process."""

    return partial(called, capsys, "show")


@pytest.mark.parametrize("how", [*REFUSED, "/dev/null", "missing.jsonl", "."])
def test_show_refuses_a_damaged_file_and_what_is_none_with_one_line(show: Show, path: Path, how: str) -> None:
    if how in REFUSED:
        path.write_bytes(damaged(path.read_bytes(), how))
    ran = show(path if how in REFUSED else path.parent / how)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.err.splitlines()) == 1


def test_show_prints_nothing_of_any_file_when_one_is_damaged(show: Show, path: Path) -> None:
    ran = show(path, "/dev/null")
    assert (ran.code, ran.out) == (2, "")


def test_show_reads_what_a_kill_left(show: Show, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])
    ran = show(path)
    assert (ran.code, ran.err) == (0, "")
    assert "answers zeros" in ran.out


def test_show_of_two_files_names_them(show: Show, path: Path) -> None:
    ran = show(path, path)
    assert ran.out.splitlines().count(str(path)) == 2


@pytest.mark.parametrize("argv", [[], ["show"], ["banana"], ["show", "--banana", "x"]])
def test_usage(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    ran = called(capsys, *argv)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.err.splitlines()) <= 6
