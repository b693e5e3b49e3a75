"""A parser's help is as wide as argparse's own would be."""

from __future__ import annotations

import argparse
import os
import shutil
import sys

import pytest

from reports.parser import OneLineParser


def helped(kind: type[argparse.ArgumentParser]) -> str:
    parser = kind("python -m micro.gemm", description="words " * 60)
    for name in ("--one", "--two"):
        parser.add_argument(name, metavar="X", help="and more words " * 20)
    return parser.format_help()


@pytest.mark.parametrize("columns", ["60", "132", "0", "-5", "wide", None])
def test_help_is_as_wide_as_the_environment_says(monkeypatch: pytest.MonkeyPatch, columns: str | None) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    assert helped(OneLineParser) == helped(argparse.ArgumentParser)


@pytest.mark.parametrize("columns", [70, 0])
def test_help_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda *given: os.terminal_size((columns, 24)))
    assert helped(OneLineParser) == helped(argparse.ArgumentParser)
    assert shutil.get_terminal_size().columns == (columns or 80)


def test_help_without_a_stdout_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "__stdout__", None)
    assert helped(OneLineParser) == helped(argparse.ArgumentParser)


@pytest.mark.parametrize("word", ["-5", "-5s", "-.5", "-1e3%"])
def test_a_number_below_zero_is_a_value_whatever_its_unit(word: str) -> None:
    parser = OneLineParser("x")
    parser.add_argument("--budget")
    assert parser.parse_args(["--budget", word]).budget == word
