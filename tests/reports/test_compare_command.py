"""`python -m reports compare A B`: what it prints, what its gate holds back, what it refuses with one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from reports import store
from reports.record import Run
from tests.conftest import Ran
from tests.reports.runs import called
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
@pytest.mark.parametrize("share", ["0", "1", "100%", "abc", "-1%", "nan", "", "5%%"])
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
    assert ran.code == 0 and "passed over" in ran.out + ran.err
