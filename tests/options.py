"""Options of a parser, and those that choose what is printed and kept instead of what is measured."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from reports import formats

ROOT = Path(__file__).parents[1]

# Options of what is printed and kept, and the test that shows what each does.
OUTPUTS: Mapping[str, str] = MappingProxyType(
    {
        "-q": "tests/micro/command/test_line.py",
        "-v": "tests/golden/test_golden.py",
        "-o": "tests/faults/test_run_faults.py",
        "--resume": "tests/faults/test_run_faults.py",
        "--keep-wrong": "tests/micro/worker/test_evidence_files.py",
        "--figures": "tests/faults/test_run_faults.py",
        "--list": "tests/micro/command/test_line.py",
        **{f"--{kind}": "tests/reports/test_formats.py" for kind in formats.kinds() if kind != "text"},
    }
)


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Every option but --help, as it is typed."""
    return {action.option_strings[-1] for action in parser._actions if action.option_strings} - {"--help"}


def either(words: Sequence[str], option: str, used: bool, refusal: str) -> None:
    """Fail unless an option changes what is planned, or a line that names it refuses it."""
    line = " ".join(words)
    assert used or refusal, f"{line}: {option} changes nothing, and is not refused"
    assert used or option in refusal, f"{line}: refused without naming {option}: {refusal}"
    assert "\n" not in refusal, f"{line}: refused in several lines"
