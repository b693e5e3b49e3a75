"""Summary of skipped tests at the end of a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_terminal_summary


def report(longrepr: Any) -> pytest.TestReport:
    return pytest.TestReport("a.py::test", ("a.py", 1, "test"), {}, "skipped", longrepr, "setup")


def test_each_reason_stands_once_with_its_count() -> None:
    """A skip's location is a tuple in this process's reports and a list in those of xdist's workers."""
    lines: list[str] = []
    skipped = [
        report(("a.py", 1, "Skipped: no torch:\n pip install torch")),
        report(["a.py", 2, "Skipped: one core"]),
        report(("a.py", 3, "one core")),
    ]
    pytest_terminal_summary(SimpleNamespace(stats={"skipped": skipped}, write_line=lines.append))
    assert lines == ["2 skipped: one core", "1 skipped: no torch: pip install torch"]


def test_nothing_is_said_where_nothing_was_skipped() -> None:
    lines: list[str] = []
    pytest_terminal_summary(SimpleNamespace(stats={}, write_line=lines.append))
    assert not lines
