"""`python -m reports show`: whole, damaged and missing run files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reports.__main__ import main
from tests.conftest import Ran
from tests.reports.runs import REFUSED, damaged, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path / "run.jsonl")


Show = Callable[..., Ran]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """`show(FILE)`: the command `python -m reports show FILE`, in this process."""

    def run(*argv: object) -> Ran:
        code: object
        try:
            code = main(["show", *map(str, argv)])
        except SystemExit as end:
            code = end.code
        told = capsys.readouterr()
        return Ran(code, told.out, told.err)

    return run


@pytest.mark.parametrize("how", REFUSED)
def test_show_refuses_a_damaged_file_with_one_line(show: Show, path: Path, how: str) -> None:
    path.write_bytes(damaged(path.read_bytes(), how))
    ran = show(path)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["/dev/null", "missing.jsonl", "."])
def test_show_refuses_what_is_no_file(show: Show, tmp_path: Path, name: str) -> None:
    ran = show(tmp_path / name)
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
    with pytest.raises(SystemExit) as end:
        main(argv)
    told = capsys.readouterr()
    assert (end.value.code, told.out) == (2, "")
    assert len(told.err.splitlines()) <= 6
