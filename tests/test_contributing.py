"""CONTRIBUTING.md walked: its files written as they stand there, its commands run."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import ROOT, python


def recipes() -> list[tuple[str, str]]:
    """(title, text) of each section that holds a command."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    sections = re.split(r"^## ", text, flags=re.M)[1:]
    return [(s.partition("\n")[0], s) for s in sections if "```sh" in s]


def add_files(text: str, folder: Path) -> None:
    """Write the files of recipes to their places."""
    for path, code in re.findall(r"```(?:python|c)\n(?:#|//) file: (\S+)\n(.*?)```", text, flags=re.S):
        target = folder / path
        assert not target.exists(), f"{path}: to add is to add a file"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(code)


def copy(folder: Path, *more: str) -> None:
    """The suite without its tests."""
    shutil.copy(ROOT / "kernelgap.py", folder)
    for name in ("kernels", "micro", "macro", "reports", *more):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "reference"))


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return python(*command.split()[1:], cwd=folder, timeout=600, PYTHONPATH=str(folder))


SLOW = {"Add a framework", "Add a variant"}  # one trains a network of its own size four times, the other measures


WALKS = "arrows.py", "imports.py::test_heavy_packages_are_imported_in_functions"


@pytest.mark.parametrize(
    ("title", "text"),
    [pytest.param(*one, id=one[0], marks=[pytest.mark.slow] if one[0] in SLOW else []) for one in recipes()],
)
def test_recipe(title: str, text: str, tmp_path: Path) -> None:
    copy(tmp_path)
    add_files(text, tmp_path)
    blocks = re.findall(r"```sh\n(.*?)\n```", text, flags=re.S)
    for command in (line for block in blocks for line in block.splitlines()):
        told = run(command, tmp_path)
        assert told.returncode == 0, told.stderr
        assert "wrong" not in told.stdout and "failed" not in told.stdout
        if "," in command.partition("--variant")[2]:
            assert re.search(r"\b(slower|faster|same|unresolved)\b", told.stdout)


def test_recipes_pass_ruff(tmp_path: Path) -> None:
    copy(tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    add_files((ROOT / "CONTRIBUTING.md").read_text(), tmp_path)
    for words in ("check", "format --check"):
        ran = run(f"python -m ruff {words} --no-cache .", tmp_path)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "words", ["mypy", "pytest " + " ".join(f"tests/test_{name}" for name in WALKS)], ids=["mypy", "pytest"]
)
@pytest.mark.slow
def test_recipes_pass_checks_of_all_files(words: str, tmp_path: Path) -> None:
    """All recipes together, in their places in the suite."""
    cache = [".mypy_cache"] if (ROOT / ".mypy_cache").is_dir() else []
    copy(tmp_path, "tests", "docs", *cache)
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, tmp_path)
    add_files((ROOT / "CONTRIBUTING.md").read_text(), tmp_path)
    ran = run(f"python -m {words}", tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_there_are_recipes() -> None:
    assert [title for title, _ in recipes()] == [
        "Add a variant",
        "Add an operation",
        "Add a format",
        "Add a device",
        "Add a network",
        "Add a change",
        "Add a kind of layer",
        "Add a framework",
    ]


def test_a_variant_is_one_line_of_the_table(tmp_path: Path) -> None:
    copy(tmp_path)
    table = tmp_path / "kernels/ops/gemm/variants.py"
    text = table.read_text()
    head = "VARIANTS: tuple[Variant[Gemm], ...] = (\n"
    assert head in text
    row = '    Variant("again", "cpu", "numpy", numpy_matmul, accepts=plain, python=True),\n'
    table.write_text(text.replace(head, head + row))
    told = run("python -m micro.gemm --m 16 --n 16 --k 16 --variant numpy,again --budget 0.5s", tmp_path)
    assert told.returncode == 0, told.stderr
    assert re.search(r"again / .* (slower|faster|same|unresolved)", told.stdout)


# A bare root


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (1000, "bare: a root is made and mounted into: run it as root\n"),
        (0, "bare: debootstrap is missing: apt-get install debootstrap\n"),
    ],
)
def test_a_missing_need_is_one_line(user: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BARE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "id").write_text(f"#!/bin/sh\necho {user}\n")
    (tmp_path / "id").chmod(0o755)
    (tmp_path / "dirname").symlink_to(shutil.which("dirname", path="/usr/bin:/bin") or "")
    ran = subprocess.run(["/bin/bash", ROOT / ".ci/bare"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, message, "")


def test_only_what_the_makefile_asks_for_is_installed() -> None:
    """Beside make, git for the clone, and the headers that gcc recommends."""
    packages = re.search(r"^packages=(.+)$", (ROOT / ".ci/bare").read_text(), re.MULTILINE)
    named = re.findall(r"apt-get install ([a-z0-9 -]+)", (ROOT / "Makefile").read_text())
    assert packages and set(packages[1].split(",")) == {*" ".join(named).split(), "make", "git", "libc6-dev"}
