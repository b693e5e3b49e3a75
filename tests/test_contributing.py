"""CONTRIBUTING.md walked: its files written as they stand there, its commands run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def recipes() -> list[tuple[str, str]]:
    """(title, text) of each section that holds a command."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    sections = re.split(r"^## ", text, flags=re.M)[1:]
    return [(s.partition("\n")[0], s) for s in sections if "```sh" in s]


@pytest.mark.parametrize(("title", "text"), recipes(), ids=[title for title, _ in recipes()])
def test_recipe(title: str, text: str, tmp_path: Path) -> None:
    for name in ("kernels", "micro", "reports"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "reference")
        )
    for path, code in re.findall(r"```python\n# file: (\S+)\n(.*?)```", text, flags=re.S):
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(code)
    for command in re.findall(r"```sh\n(.*?)\n```", text, flags=re.S):
        told = subprocess.run(
            [sys.executable, *command.split()[1:]],
            cwd=tmp_path, capture_output=True, text=True, timeout=120,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        assert told.returncode == 0, told.stderr
        assert "wrong" not in told.stdout and "failed" not in told.stdout
        if "," in command.partition("--variant")[2]:
            assert re.search(r"\b(slower|faster|same|unresolved)\b", told.stdout)


def test_there_are_recipes() -> None:
    assert [title for title, _ in recipes()] == ["Add a variant", "Add an operation", "Add a device"]
