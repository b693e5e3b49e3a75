"""`python -m reports`: what compare prints and refuses, what show says of whole and damaged run files, its options."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reports import store
from reports.parser import OneLineParser
from reports.record import Run
from tests.conftest import Ran
from tests.reports.runs import REFUSED, called, damaged, written
from tests.reports.test_compare import ENVIRONMENT, FIVE, result, run, slower


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """`command(first, second, "--gate", "5%")`: `python -m reports compare`, in this process."""

    def compared(first: Run, second: Run, *words: str) -> Ran:
        paths = []
        for name, one in (("first", first), ("second", second)):
            path = tmp_path / f"{name}.jsonl"
            path.unlink(missing_ok=True)
            file = store.RunFile(path, one.environment)
            for contest in one.contests:
                file.append(contest)
            file.close()
            paths.append(str(path))
        return called(capsys, "compare", *paths, *words)

    return compared


def test_the_command_says_where_and_how_much(command: Callable[..., Ran]) -> None:
    ran = command(run(result(FIVE)), run(result(slower(0.5)), cores=4))
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert next(i for i, x in enumerate(lines) if "cores: 2 → 4" in x) < next(
        i for i, x in enumerate(lines) if "slower" in x
    )
    assert re.search(r"b / a +1\.50\d* \[1\.4", ran.out) and "between runs" in ran.out


@pytest.mark.parametrize(
    ("share", "processes", "words", "code"),
    [
        (0.2, 5, "", 0),
        (0.2, 5, "--gate 5%", 1),
        (0.2, 5, "--gate 0.05", 1),
        (0.2, 5, "--gate 25%", 0),
        (-0.2, 5, "--gate 5%", 0),
        (0.2, 4, "--gate 5%", 2),
        (0.03, 5, "--gate 2% --margin 5%", 0),
    ],
)
def test_the_gate(command: Callable[..., Ran], share: float, processes: int, words: str, code: int) -> None:
    """Exit 1 for what is slower for certain and by so much: not for what was measured apart, or faster."""
    ran = command(run(result(FIVE[:processes])), run(result(slower(share)[:processes])), *words.split())
    assert ran.code == code


@pytest.mark.parametrize("option", ["--gate", "--margin"])
@pytest.mark.parametrize("share", ["0", "1", "100%", "abc", "-1%", "nan", ""])
def test_bad_shares_are_refused_with_one_line(command: Callable[..., Ran], option: str, share: str) -> None:
    ran = command(run(result(FIVE)), run(result(FIVE)), f"{option}={share}")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert option in ran.err


@pytest.mark.parametrize("content", [None, b"", b"Dear reader,\n", b"\x00\xff" * 99, b'{"kind":"contest"}\n'])
@pytest.mark.parametrize("which", [0, 1])
def test_files_that_are_no_runs_are_refused_with_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes | None, which: int
) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    store.RunFile(good, ENVIRONMENT).close()
    if content is not None:
        bad.write_bytes(content)
    names = [good]
    names.insert(which, bad)
    ran = called(capsys, "compare", *names)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert ran.err.startswith(f"reports compare: {bad}")


def test_a_damaged_line_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    store.RunFile(path, ENVIRONMENT).close()
    path.write_bytes(path.read_bytes() + b"no record\n")
    ran = called(capsys, "compare", path, path)
    assert ran.code == 0 and "skipped" in ran.out + ran.err


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


def test_show_reads_what_a_kill_left(show: Show, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])
    ran = show(path)
    assert (ran.code, ran.err) == (0, "")
    assert "returns zeros" in ran.out
    assert show(path, path).out.splitlines().count(str(path)) == 2
    ran = show(path, "/dev/null")
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize("argv", [[], ["show"], ["banana"], ["show", "--banana", "x"]])
def test_usage(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    ran = called(capsys, *argv)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.err.splitlines()) <= 6


def helped(kind: type[argparse.ArgumentParser]) -> str:
    parser = kind("python -m micro.gemm", description="words " * 60)
    for name in ("--one", "--two"):
        parser.add_argument(name, metavar="X", help="and more words " * 20)
    return parser.format_help()


@pytest.mark.parametrize("columns", ["60", "132", "0", "-5", "wide", None])
def test_help_is_as_wide_as_the_environment_says(monkeypatch: pytest.MonkeyPatch, columns: str | None) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    for width in (70, 0):
        monkeypatch.setattr(os, "get_terminal_size", lambda *given, width=width: os.terminal_size((width, 24)))
        assert helped(OneLineParser) == helped(argparse.ArgumentParser)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    assert helped(OneLineParser) == helped(argparse.ArgumentParser)
    monkeypatch.setattr(sys, "__stdout__", None)
    assert helped(OneLineParser) == helped(argparse.ArgumentParser)


@pytest.mark.parametrize("word", ["-5", "-5s", "-.5", "-1e3%"])
def test_a_number_below_zero_is_a_value_whatever_its_unit(word: str) -> None:
    parser = OneLineParser("x")
    parser.add_argument("--budget")
    assert parser.parse_args(["--budget", word]).budget == word
